//! The frame loop: the host time of a renderer's frame in the library, and in the driver if there is one.
//!
//! The frame is that of the example `frame_loop`, which counts its instructions. On the simulated device, the driver's
//! share is a few map operations; on Vulkan it is the real driver's.

#[path = "../../crates/ringfence/examples/frame_loop/frames.rs"]
mod renderer;

use crate::output::{Report, Row, Value};
use renderer::{Dropper, Group, Renderer};
use ringfence::device::descriptors::Descriptors;
use ringfence::device::{Device, Driver};
use ringfence::{Allocator, AllocatorDesc};
use ringfence_testkit::sim::SimGpu;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Number of frames before the timed ones.
const WARM_UP: usize = 200;
/// Number of timed frames in a repetition.
const FRAMES: usize = 600;

/// Number of threads that drop objects at the end of a frame.
#[derive(Clone, Copy)]
enum Droppers {
    One,
    Two,
}

impl Droppers {
    const ALL: [Self; 2] = [Self::One, Self::Two];
}

/// Starts a second thread that drops half of each group at the same time. Groups are sent to it full and come back
/// empty.
fn on_two_threads<D: Device + 'static>() -> (Dropper<D>, impl FnOnce() + Send) {
    let (to, groups): (_, Receiver<Group<D>>) = sync_channel(1);
    let (emptied, from): (SyncSender<Group<D>>, _) = sync_channel(1);
    let other_thread = move || {
        for mut group in groups {
            group.clear();
            if emptied.send(group).is_err() {
                return;
            }
        }
    };
    let mut half = Group::new();
    let dropper = Box::new(move |group: &mut Group<D>| {
        half.buffers.extend(group.buffers.drain(..group.buffers.len() / 2));
        half.textures.extend(group.textures.drain(..group.textures.len() / 2));
        to.send(std::mem::replace(&mut half, Group::new())).expect("the thread is there");
        group.clear();
        half = from.recv().expect("the thread is there");
    });
    (dropper, other_thread)
}

/// Records the times of frames, in µs.
fn play<G: Gpu>(gpu: &mut G, dropper: Dropper<G::Device>, times: &mut Vec<f64>)
where
    G::Device: Descriptors,
{
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let fence: <G::Device as Driver>::Fence = gpu.fence(0);
    // SAFETY: each value is submitted immediately; the fence lives as long as the device, which the allocator keeps
    // alive.
    let mut renderer = unsafe { Renderer::new(memory, fence, dropper) };
    for number in 0..WARM_UP + FRAMES {
        let time = renderer.frame(&mut |value| gpu.submit(0, &[], &[], value).expect("the device is not lost"));
        if number >= WARM_UP {
            times.push(time.as_nanos() as f64 / 1000.0);
        }
    }
}

/// Runs a repetition with a new allocator.
fn repetition<G: Gpu>(gpu: &mut G, droppers: Droppers, times: &mut Vec<f64>)
where
    G::Device: Descriptors,
{
    match droppers {
        Droppers::One => play(gpu, Box::new(Group::clear), times),
        Droppers::Two => std::thread::scope(|scope| {
            let (dropper, other_thread) = on_two_threads();
            scope.spawn(other_thread);
            play(gpu, dropper, times);
        }),
    }
}

fn row(device: &str, droppers: Droppers, mut times: Vec<f64>) -> Row {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| Value::Number(times[((times.len() - 1) as f64 * share) as usize], 1);
    let mut row = Row::new();
    row.push("device", Value::Text(device.into()));
    row.push("threads that drop", Value::Number(droppers as usize as f64 + 1.0, 0));
    row.push("50 % µs", at(0.5));
    row.push("99 % µs", at(0.99));
    row.push("worst µs", at(1.0));
    row.push("least µs", at(0.0));
    row
}

/// Measures a frame on the simulated device, and on the first Vulkan device if there is one.
pub fn section(repetitions: usize, report: &mut Report) -> std::io::Result<()> {
    let options = Options { name: std::env::var("RINGFENCE_BENCH_DEVICE").ok(), ..Default::default() };
    let mut times = [const { Vec::new() }; 4];
    let mut device = None;
    for _ in 0..repetitions {
        for droppers in Droppers::ALL {
            let mut gpu = SimGpu::open(&Options::default()).expect("the simulated device is always there");
            repetition(&mut gpu, droppers, &mut times[droppers as usize]);
        }
        for droppers in Droppers::ALL {
            let Ok(mut gpu) = VulkanGpu::open(&options) else { break };
            device = Some(gpu.device().capabilities().name.clone());
            repetition(&mut gpu, droppers, &mut times[2 + droppers as usize]);
        }
    }
    let names = ["simulated".into(), device.unwrap_or_default()];
    let with_times = times.into_iter().enumerate().filter(|(_, times)| !times.is_empty());
    let rows: Vec<_> = with_times.map(|(at, times)| row(&names[at / 2], Droppers::ALL[at % 2], times)).collect();
    let heading = "A frame: 200 constants, 72 buffers and 4 textures made and dropped, 32 views, a reclaim";
    report.table("frames", heading, &rows, 0)
}
