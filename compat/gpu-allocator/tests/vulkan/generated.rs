//! Thousands of random requests, compared with a simple model of the owner of each byte.

use std::collections::BTreeMap;

use ash::vk::{self, Handle};
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::Allocation;

use crate::rig::{self, Rig};

/// A live allocation; `true` if it is linear.
struct Live(Allocation, bool);

#[test]
fn no_two_allocations_share_a_byte_and_no_image_a_page_with_a_buffer() {
    let Some(mut rig) = Rig::open() else { return };
    let granularity = rig.granularity();
    let mut state = 1_u64;
    let mut random = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut live: Vec<Live> = Vec::new();
    for step in 0..4000 {
        let wants = if step / 500 % 2 == 0 { 7 } else { 3 };
        if random(10) < wants || live.is_empty() {
            let (shift, linear) = (random(20), random(2) == 0);
            let requirements = vk::MemoryRequirements {
                size: 1 + random(1 << shift),
                alignment: 1 << random(12),
                memory_type_bits: u32::MAX,
            };
            let location = [MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu][random(2) as usize];
            let desc = rig::linear(rig::desc(requirements, location, "generated"), linear);
            let made = rig.allocator().allocate(&desc).expect("memory");
            assert_eq!((made.size(), made.offset() % requirements.alignment), (requirements.size, 0));
            live.push(Live(made, linear));
        } else {
            let at = random(live.len() as u64) as usize;
            let Live(allocation, _) = live.swap_remove(at);
            rig.allocator().free(allocation).expect("it is this allocator's");
        }
        if step % 50 == 0 {
            check(&live, granularity);
            let report = rig.allocator().generate_report();
            assert_eq!(report.allocations.len(), live.len());
            assert_eq!(report.total_allocated_bytes, live.iter().map(|Live(held, _)| held.size()).sum::<u64>());
        }
    }
    live.into_iter().for_each(|Live(held, _)| rig.allocator().free(held).expect("it is this allocator's"));
    let kept = rig.allocator().generate_report().blocks.len();
    assert!(kept <= 2 * rig.memory_types().len(), "{kept} blocks are kept");
    rig.finish();
}

fn check(live: &[Live], granularity: u64) {
    let mut spans: BTreeMap<(u64, u64), (u64, bool)> = BTreeMap::new();
    for Live(held, linear) in live {
        // SAFETY: the handle is only compared.
        let memory = unsafe { held.memory() }.as_raw();
        let doubled = spans.insert((memory, held.offset()), (held.offset() + held.size(), *linear));
        assert_eq!(doubled, None, "two at one place");
    }
    for ((first, first_span), (second, second_span)) in spans.iter().zip(spans.iter().skip(1)) {
        if first.0 == second.0 {
            assert!(first_span.0 <= second.1, "an overlap at {second:?}");
            let shares_page = (first_span.0 - 1) / granularity == second.1 / granularity;
            assert!(first_span.1 == second_span.1 || !shares_page, "a buffer and an image in one page at {second:?}");
        }
    }
}
