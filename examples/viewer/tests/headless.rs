//! Runs the viewer without a window: two runs give the same picture, without messages of the validation layer. The exit
//! code is 0 only if nothing that the program created is left.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn two_runs_draw_the_same_picture() {
    let Some(first) = picture("first", &[]) else { return };
    let colours = texels(&first);
    let distinct: std::collections::HashSet<_> = colours.chunks(3).collect();
    assert!(distinct.len() > 2_000, "{} colours", distinct.len());
    let mean = colours.iter().map(|part| f64::from(*part)).sum::<f64>() / colours.len() as f64;
    assert!((60.0..200.0).contains(&mean), "the mean is {mean}");
    let second = picture("second", &[]).expect("the first run found a device");
    assert!(colours == texels(&second), "{} and {} differ", first.display(), second.display());
}

#[test]
fn a_resize_and_a_small_budget_draw_the_whole_picture() {
    let Some(path) = picture("resized", &["--resize-at", "9", "--budget", "1"]) else { return };
    assert_eq!(texels(&path).len(), 320 * 180 * 3);
}

#[test]
fn a_gltf_file_is_drawn() {
    let scene = folder().join("box.glb");
    std::fs::write(&scene, a_box()).expect("the folder is writable");
    let scene = scene.to_str().expect("UTF-8");
    let Some(path) = picture("box", &["--scene", scene]) else { return };
    let red = texels(&path).chunks(3).filter(|texel| texel[0] > 90 && texel[1] < 70).count();
    assert!(red > 1_000, "{red} red texels of the box");
}

/// Runs the viewer for 30 frames, and returns the path of its picture; `None` if there is no device,
/// unless `RINGFENCE_REQUIRE_VULKAN` is set.
fn picture(name: &str, more: &[&str]) -> Option<PathBuf> {
    let path = folder().join(format!("{name}.png"));
    let image = path.to_str().expect("UTF-8");
    let mut words = vec!["--frames", "30", "--size", "320x180", "--image", image, "--validate"];
    words.extend(more);
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_viewer")).args(words).output().expect("the viewer runs");
    let (out, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if ["libvulkan", "no device", "INCOMPATIBLE_DRIVER", "needs the layer"].iter().any(|part| error.contains(part)) {
        assert!(std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none(), "a device is required: {error}");
        eprintln!("skipped: {error}");
        return None;
    }
    assert!(status.success(), "{status}\n{out}\n{error}");
    assert!(out.contains("\n0 messages"), "{out}\n{error}");
    Some(path)
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn texels(path: &Path) -> Vec<u8> {
    let file = File::open(path).expect("the viewer has written it");
    let mut reader = png::Decoder::new(BufReader::new(file)).read_info().expect("a PNG file");
    let mut texels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut texels).expect("a picture");
    texels
}

/// Returns a glTF file with one red box: eight positions and twelve triangles.
fn a_box() -> Vec<u8> {
    let mut data: Vec<u8> = (0..8_u32)
        .flat_map(|corner| [0, 1, 2].map(|axis| if corner >> axis & 1 == 1 { 1.0_f32 } else { -1.0 }))
        .flat_map(f32::to_le_bytes)
        .collect();
    let sides: [[u16; 4]; 6] = [[1, 3, 7, 5], [0, 4, 6, 2], [2, 6, 7, 3], [0, 1, 5, 4], [4, 5, 7, 6], [0, 2, 3, 1]];
    let indices = sides.iter().flat_map(|[a, b, c, d]| [*a, *b, *c, *a, *c, *d]);
    data.extend(indices.flat_map(u16::to_le_bytes));
    let mut json = String::from(
        r#"{"asset":{"version":"2.0"},"scene":0,"scenes":[{"nodes":[0]}],"nodes":[{"mesh":0}],
        "meshes":[{"primitives":[{"attributes":{"POSITION":0},"indices":1,"material":0}]}],
        "materials":[{"pbrMetallicRoughness":{"baseColorFactor":[0.8,0.02,0.02,1],"metallicFactor":0}}],
        "accessors":[{"bufferView":0,"componentType":5126,"count":8,"type":"VEC3","min":[-1,-1,-1],"max":[1,1,1]},
        {"bufferView":1,"componentType":5123,"count":36,"type":"SCALAR"}],
        "bufferViews":[{"buffer":0,"byteOffset":0,"byteLength":96},{"buffer":0,"byteOffset":96,"byteLength":72}],
        "buffers":[{"byteLength":168}]}"#,
    );
    json.extend(std::iter::repeat_n(' ', json.len().next_multiple_of(4) - json.len()));
    let size = 12 + 8 + json.len() + 8 + data.len();
    let word = |number: usize| (number as u32).to_le_bytes();
    [b"glTF", &word(2), &word(size), &word(json.len()), b"JSON", json.as_bytes(), &word(data.len()), b"BIN\0", &data]
        .concat()
}
