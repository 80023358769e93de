use super::*;

#[test]
fn a_cube_is_one_chain_with_the_array_that_it_is_on_some_devices() {
    let usage = crate::device::TextureUsage::SAMPLED;
    let cube = TextureDesc {
        dimension: Dimension::Cube,
        width: 64,
        height: 64,
        layers: 6,
        mips: 7,
        usage,
        ..Default::default()
    };
    let faces = TextureDesc { dimension: Dimension::D2, ..cube };
    let smaller = |of: TextureDesc| TextureDesc { width: 32, height: 32, mips: 6, ..of };
    for (present, wanted) in [(cube, cube), (faces, cube), (cube, faces)] {
        assert_eq!(overlap(&present, &smaller(wanted)), Ok((1, 0)));
        assert_eq!(overlap(&smaller(present), &wanted), Ok((0, 1)));
    }
    let volume = TextureDesc { dimension: Dimension::D3, ..cube };
    assert!(overlap(&volume, &smaller(faces)).is_err());
}
