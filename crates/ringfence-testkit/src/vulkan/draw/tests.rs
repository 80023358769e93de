#[test]
fn the_shader_compiles_to_spirv() {
    let code = super::compile();
    assert_eq!(code[..2], [0x0723_0203, 0x0001_0300], "magic number and version");
}
