//! A renderer on Ringfence: meshes, materials, shadows, bloom, streaming. `viewer --help` lists the options.

mod args;
mod constants;
mod gpu;
mod heap;
mod inputs;
mod load;
mod output;
mod pictures;
mod pipelines;
mod recorder;
mod renderer;
mod scene;
mod shapes;
mod sky;
mod slot;
mod targets;
mod textures;
#[cfg(feature = "window")]
mod window;

use std::time::Instant;

use args::Args;
use gpu::{Gpu, Wanted};
use renderer::{Also, Renderer};
use scene::Scene;

pub type Failure = Box<dyn std::error::Error>;

fn main() -> std::process::ExitCode {
    match start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("viewer: {error}");
            1.into()
        }
    }
}

fn start() -> Result<std::process::ExitCode, Failure> {
    let Some(args) = Args::read(std::env::args().skip(1))? else {
        println!("{}", args::USAGE);
        return Ok(0.into());
    };
    let scene = match &args.scene {
        Some(path) => load::load(path)?,
        None => Scene::generated(),
    };
    let validate = args.validate;
    let messages = if args.window { show(scene, args)? } else { draw(&scene, &args)? };
    if validate {
        println!("{messages} messages of the validation layer");
    }
    Ok(u8::from(messages > 0).into())
}

#[cfg(feature = "window")]
fn show(scene: Scene, args: Args) -> Result<u32, Failure> {
    window::run(scene, args)
}

#[cfg(not(feature = "window"))]
fn show(_: Scene, _: Args) -> Result<u32, Failure> {
    Err("this build has no window: build with --features window".into())
}

/// Draws without a window. Returns the number of messages of the validation layer.
fn draw(scene: &Scene, args: &Args) -> Result<u32, Failure> {
    let gpu = Gpu::new(Wanted { name: args.device.as_deref(), validate: args.validate, ..Default::default() })?;
    println!("{}: {} draws", gpu.name, scene.instances.len());
    run(&gpu, scene, args)?;
    gpu.finish()
}

/// Draws the frames, and writes the picture and the report.
fn run(gpu: &Gpu, scene: &Scene, args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.report {
        output::start_trace(&gpu.memory, path)?;
    }
    let mut renderer = Renderer::new(gpu, args.size, args.budget)?;
    let (mut samples, mut picture, begun) = (Vec::new(), None, Instant::now());
    for number in 0..args.frames {
        if args.resize_at == Some(number) {
            renderer.resize(gpu, args.size.map(|side| side / 2))?;
        }
        if args.resize_at.is_some_and(|at| at + 10 == number) {
            renderer.resize(gpu, args.size)?;
        }
        let read = number + 1 == args.frames && args.image.is_some();
        picture = renderer.frame(gpu, scene, number, Also { read, show: None })?;
        samples.push(output::sample(&gpu.memory, renderer.ring(), number));
    }
    let elapsed = begun.elapsed();
    if let (Some(path), Some(read)) = (&args.image, &picture) {
        output::write_image(path, args.size, read)?;
    }
    let mut facts = vec![
        ("device".into(), gpu.name.clone()),
        ("frames".into(), args.frames.to_string()),
        ("time of a frame".into(), format!("{:.1} ms", elapsed.as_secs_f64() * 1e3 / f64::from(args.frames))),
    ];
    facts.extend(renderer.figures());
    facts.iter().for_each(|(label, value)| println!("{label}: {value}"));
    if let Some(path) = &args.report {
        output::write_report(path, &gpu.memory, samples, facts)?;
    }
    drop(picture);
    renderer.destroy(gpu);
    Ok(())
}
