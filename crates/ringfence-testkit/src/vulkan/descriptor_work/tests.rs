//! Tests of the shaders.

#[test]
fn the_shader_compiles_to_spirv_without_more_than_constant_size_arrays() {
    for constants in [false, true] {
        let code = super::compile(32, constants);
        assert_eq!(code[0], 0x0723_0203, "magic number");
        // OpCapability is word count 2, opcode 17; RuntimeDescriptorArray is 5302.
        let capabilities = code.windows(2).filter(|pair| pair[0] == 2 << 16 | 17).map(|pair| pair[1]);
        let capabilities: Vec<_> = capabilities.collect();
        assert!(!capabilities.contains(&5302), "{capabilities:?}");
    }
}
