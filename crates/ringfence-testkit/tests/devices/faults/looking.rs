//! Debugging while driver calls fail. Guards, fills and histories stay correct, and a fault is not reported as a
//! mistake of the program.

use ringfence::debugging::DebugDesc;
use ringfence::device::BufferDesc;
use ringfence::device::fault::Call;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location};
use ringfence_testkit::Gpu;

use crate::faults::{COPIED, KIB, MIB};
use ringfence_testkit::faults::{Outcome, Stage, pattern};
use ringfence_testkit::rig::PATIENCE;

/// Allocates, writes and frees ranges in every location, in a separate allocator with all checks.
pub fn debugging<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let desc = AllocatorDesc { debug: DebugDesc::everything(), device_block_bytes_max: 4 * MIB, ..Default::default() };
    let memory = Allocator::over(stage.gpu.device(), desc);
    let bytes = pattern(9, 3 * KIB);
    for _ in 0..2 {
        let mut held = Vec::new();
        for location in Location::ALL {
            let unflushed = stage.faults.failed(Call::Flush);
            let mut made = trial.run(|| -> Result<_, ringfence::memory::Error> {
                let info = BufferDesc { size: 3 * KIB, usage: COPIED };
                let desc = AllocationDesc { location, name: "looked at", ..Default::default() };
                memory.create_buffer(&info, desc)
            })?;
            if location == Location::Upload {
                trial.run(|| made.write(0, &bytes))?;
            }
            if location == Location::Readback {
                let mut read = vec![0; 16];
                trial.run(|| made.read(0, &mut read))?;
                let is_flushed = stage.faults.failed(Call::Flush) == unflushed;
                assert!(read == [0xcd; 16] || !is_flushed, "new memory is filled");
            }
            memory.debug().validate().expect("sound");
            assert!(memory.debug().check_guards().overruns.is_empty(), "no guard was written");
            held.push(made);
        }
        assert_eq!(memory.debug().live().len(), held.len());
        drop(held);
        memory.reclaim();
        memory.debug().validate().expect("sound");
    }
    trial.run(|| memory.shutdown(PATIENCE))?;
    assert_eq!(memory.debug().take_findings(), [], "no leak, and no damaged guard");
    Ok(())
}
