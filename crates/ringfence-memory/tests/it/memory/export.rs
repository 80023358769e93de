//! The snapshot in VMA's format.

use ringfence::memory::PoolDesc;
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated};

use crate::memory::world::{KIB, MIB, info, world};

#[test]
fn the_snapshot_is_written_as_vma_writes_its_own() {
    // The distance is so large that blocks are for buffers alone: VMA's format has a word for their content.
    let mut profile = Profile::h200();
    profile.capabilities.class_granularity_bytes = 64 * KIB;
    let world = world(profile, AllocatorDesc::default());
    let named = AllocationDesc { name: "a \"name\"\n", user_data: 0xabc, ..Default::default() };
    let one = world.buffer(10 * KIB, named).expect("room");
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let two = world.buffer(MIB, alone).expect("room");
    let pool = world.memory.create_pool(PoolDesc { memory_type: 1, name: "pool", ..Default::default() }).expect("pool");
    let three = pool.create_buffer(&info(KIB), AllocationDesc::default()).expect("room");
    let text = world.memory.snapshot().to_vma_json();
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["Total"]["AllocationCount"], 3);
    assert_eq!(json["Total"]["BlockCount"], 3);
    let block = &json["DefaultPools"]["Type 1"]["Blocks"]["0"];
    assert_eq!(block["TotalBytes"], 4 * MIB);
    assert_eq!(block["UnusedBytes"], 4 * MIB - 10 * KIB);
    let range = &block["Suballocations"][0];
    assert_eq!((&range["Type"], &range["Size"]), (&"BUFFER".into(), &(10 * KIB).into()));
    assert_eq!((&range["Name"], &range["CustomData"]), (&"a \"name\"\n".into(), &"0000000000000ABC".into()));
    assert_eq!(block["Suballocations"][1]["Type"], "FREE");
    assert_eq!(json["DefaultPools"]["Type 1"]["DedicatedAllocations"][0]["Size"], MIB);
    assert_eq!(json["CustomPools"]["Type 1"][0]["Name"], "pool");
    assert_eq!(json["MemoryInfo"]["Heap 0"]["Stats"]["BlockBytes"], json["Total"]["BlockBytes"]);
    // The same keys as in VMA's own dump, level by level.
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["CustomPools", "DefaultPools", "General", "MemoryInfo", "Total"]);
    assert_eq!(keys(&json["MemoryInfo"]["Heap 0"]), ["Budget", "Flags", "MemoryPools", "Size", "Stats"]);
    assert_eq!(
        keys(block),
        ["Allocations", "MapRefCount", "Suballocations", "TotalBytes", "UnusedBytes", "UnusedRanges"]
    );
    drop((one, two, three, pool));
    world.finish();
}
