//! The command line.

use crate::Failure;

pub const USAGE: &str = "\
viewer [--frames N] [--size WxH] [--image FILE.png] [--report FILE.html] [--scene FILE.glb] [--budget MIB]
       [--resize-at N] [--device NAME] [--validate] [--window]";

/// Options of a run.
#[derive(Clone)]
pub struct Args {
    pub frames: u32,
    pub size: [u32; 2],
    pub image: Option<String>,
    pub report: Option<String>,
    /// A glTF file; `None` for the generated scene.
    pub scene: Option<String>,
    /// Memory of paged textures, in bytes.
    pub budget: u64,
    /// Number of the frame in which the targets shrink to half their size. They get their full size again 10 frames
    /// later.
    pub resize_at: Option<u32>,
    /// Part of the name of the device.
    pub device: Option<String>,
    pub validate: bool,
    /// `true` to show a window, which needs the feature `window`.
    pub window: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            frames: 60,
            size: [960, 540],
            image: None,
            report: None,
            scene: None,
            budget: 64 << 20,
            resize_at: None,
            device: None,
            validate: false,
            window: false,
        }
    }
}

impl Args {
    /// Reads the options of the process. Returns `None` if help was requested.
    pub fn read(words: impl Iterator<Item = String>) -> Result<Option<Self>, Failure> {
        let (mut args, mut words) = (Self::default(), words);
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            match word.as_str() {
                "--validate" => args.validate = true,
                "--window" => args.window = true,
                _ => {
                    let value = words.next().ok_or(format!("{word} needs a value\n{USAGE}"))?;
                    args.set(&word, value)?;
                }
            }
        }
        Ok(Some(args))
    }

    fn set(&mut self, word: &str, value: String) -> Result<(), Failure> {
        match word {
            "--frames" => self.frames = value.parse::<u32>()?.max(1),
            "--size" => self.size = size(&value)?,
            "--image" => self.image = Some(value),
            "--report" => self.report = Some(value),
            "--scene" => self.scene = Some(value),
            "--budget" => self.budget = value.parse::<u64>()? << 20,
            "--resize-at" => self.resize_at = Some(value.parse()?),
            "--device" => self.device = Some(value),
            _ => return Err(format!("unknown option {word}\n{USAGE}").into()),
        }
        Ok(())
    }
}

fn size(value: &str) -> Result<[u32; 2], Failure> {
    let (width, height) = value.split_once('x').ok_or("a size is WIDTHxHEIGHT, for example 960x540")?;
    let size = [width.parse()?, height.parse()?];
    if size.iter().any(|side| !(16..=8192).contains(side)) {
        return Err("a side has 16 to 8192 texels".into());
    }
    Ok(size)
}
