use super::*;

#[test]
fn a_description_comes_back_from_its_bytes() {
    let shared = SharedMemory {
        kind: ShareKind::DmaBuf,
        identity: std::array::from_fn(|at| at as u8),
        memory_bytes: 1 << 40,
        memory_type: 7,
        is_tied: true,
        offset: 0x1234_5678_9abc,
        size: 99,
    };
    let bytes = shared.to_bytes();
    assert_eq!(SharedMemory::from_bytes(&bytes), Some(shared));
    for (at, wrong) in [(0, 200), (1, 2)] {
        let mut bytes = bytes;
        bytes[at] = wrong;
        assert_eq!(SharedMemory::from_bytes(&bytes), None);
    }
}
