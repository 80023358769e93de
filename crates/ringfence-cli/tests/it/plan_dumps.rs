//! `ringfence plan` with dumps of compilers. Most dumps are written in this file, in the formats of XLA and TVM. Those
//! in `tests/dumps` were written by TVM, for networks that were made for these tests.

use crate::command;

use std::fmt::Write;

use command::{cases, ringfence_with_input};
use serde_json::{Value, json};

/// A buffer assignment with a parameter, a result and five temporaries, then their live ranges. One temporary is
/// updated in place, and a loop carries another.
const XLA: &str = "BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}:
 value: <1 p.0 @0> (size=4096,offset=0): f32[1024]{0}
allocation 1: size 4096, output shape is |f32[1024]|, maybe-live-out:
 value: <9 result @0> (size=4096,offset=0): f32[1024]{0}
allocation 2: size 7168, preallocated-temp:
 value: <2 first @0> (size=4096,offset=0): f32[1024]{0}
 value: <3 in_place.1 @0> (size=4096,offset=0): f32[1024]{0}
 value: <4 pair{0} @0> (size=1024,offset=4096): f32[256]{0}
 value: <5 pair{1} @0> (size=2048,offset=5120): f32[512]{0}
 value: <6 last{} (phi) @0> (size=3072,offset=0): f32[768]{0}
 value: <7 token @0> (size=0,offset=0): token[]

Total bytes used: 15360 (15.0KiB)

HloLiveRange (max 9):
  InstructionSequence:
    0:p.0
    1:first
  BufferLiveRange:
    p.0{}:0-9
    first{}:1-3
    in_place.1{}:3-5
    pair{0}:2-4
    pair{1}:2-6
    last{}:6-8
    token{}:6-8
    result{}:8-9
  Live ranges at 3 (peak):
    first: 4096 bytes
";

fn planned(arguments: &[&str], text: &str) -> Vec<Vec<String>> {
    let all = [&["plan", "-", "--output", "-"], arguments].concat();
    let answer = ringfence_with_input(&all, text.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    answer.out.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn temporaries_of_xla_are_rows_and_what_it_works_on_in_place_is_one() {
    let rows = planned(&[], XLA);
    assert_eq!(rows[0].join(","), "id,lower,upper,size,alignment,name,offset");
    let expected =
        ["2,1,6,4096,,first{} in_place.1{}", "4,2,5,1024,,pair{0}", "5,2,7,2048,,pair{1}", "6,6,9,3072,,last{}"];
    let heads: Vec<String> = rows[1..].iter().map(|row| row[..6].join(",")).collect();
    assert_eq!(heads, expected);
    let answer = ringfence_with_input(&["plan", "-", "--json"], XLA.as_bytes());
    let json: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((&json["given_bytes"], &json["peak_bytes"]), (&7168.into(), &7168.into()));
    // Older dumps have an address before the size. If the format is named, it is not detected.
    let old = XLA.replace(": size 7168", ": 0x55d0c8, size 7168");
    assert_eq!(planned(&["--format", "xla"], &old), rows);
    assert_eq!(planned(&["--alignment", "256"], XLA).len(), 5);
}

/// Two consecutive loops whose counters have the same offset in XLA's plan. Between the loops another value has this
/// offset.
const LOOPS: &str = "BufferAssignment:
allocation 0: size 72, preallocated-temp:
 value: <1 begin @0> (size=8,offset=0): s64[]
 value: <2 while.1{0} (phi) @0> (size=8,offset=0): s64[]
 value: <3 next @0> (size=8,offset=0): s64[]
 value: <4 between @0> (size=64,offset=0): f32[16]{0}
 value: <5 while.2{0} (phi) @0> (size=8,offset=0): s64[]
 value: <6 all @0> (size=8,offset=64): s64[]
 value: <7 later @0> (size=8,offset=64): s64[]
HloLiveRange (max 30):
  BufferLiveRange:
    begin{}:1-2
    while.1{0}:3-5
    next{}:8-9
    between{}:11-13
    while.2{0}:15-19
    all{}:0-9
    later{}:11-20
";

#[test]
fn what_a_loop_of_xla_carries_is_one_row_though_its_live_ranges_have_gaps() {
    let heads = |text: &str| -> Vec<String> { planned(&[], text)[1..].iter().map(|row| row[..6].join(",")).collect() };
    let expected = [
        "1,1,20,8,,begin{} while.1{0} next{} while.2{0}",
        "4,11,14,64,,between{}",
        "6,0,10,8,,all{}",
        "7,11,21,8,,later{}",
    ];
    assert_eq!(heads(LOOPS), expected);
    // If no loop carries a value, the value has a row for each live range.
    assert_eq!(heads(&LOOPS.replace(" (phi)", "")).len(), 7);
}

#[test]
fn files_of_several_modules_of_xla_are_refused_with_the_line() {
    let (assignment, ranges) = XLA.split_at(XLA.find("HloLiveRange").expect("it is there"));
    let other = ranges.replace("first{}:1-3", "first{}:2-3");
    let small = "BufferAssignment:\nallocation 0: size 4, thread-local:\n value: <1 p.0 @0> (size=4,offset=0): f32[]\n";
    let cases = [
        (format!("{assignment}{assignment}{ranges}"), ":21: expected the files of one module, with temporaries in one"),
        (format!("{XLA}{XLA}"), ":36: expected the files of one module, with temporaries in one"),
        (format!("{XLA}{other}"), ":37: expected the files of one module, with one live range of first{}"),
    ];
    for (text, expected) in cases {
        let answer = ringfence_with_input(&["plan", "-"], text.as_bytes());
        assert_eq!(answer.code, Some(1), "{expected}: {}", answer.out);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
    }
    assert_eq!(planned(&[], &format!("{small}{XLA}{ranges}")), planned(&[], XLA), "nothing is mixed");
}

#[test]
fn what_is_wrong_with_a_dump_of_xla_is_named_with_its_line() {
    let without = XLA.split("HloLiveRange").next().expect("the part before");
    let cases = [
        (without.to_owned(), "standard input: expected live ranges after the buffer assignment"),
        (XLA.replace("    last{}:6-8\n", ""), "standard input:11: expected a live range of last{}, found none"),
        (XLA.replace("last{}:6-8", "last{}:8-6"), "standard input:26: expected a range that does not end before"),
        (XLA.replace("(size=3072,", "(size=x,"), "standard input:11: expected value: <NUMBER NAME @N> (size=BYTES"),
        (XLA.replace("size 7168", "size many"), "standard input:6: expected allocation NUMBER: size BYTES"),
        (
            XLA.replace("allocation 1: size 4096, output shape is |f32[1024]|", "allocation 1: size 4096, color 1")
                .replace("maybe-live-out", "preallocated-temp"),
            "standard input: expected temporaries of one memory space, found the colors [1, 0]",
        ),
        (XLA.replace("preallocated-temp", "maybe-live-out"), "standard input: expected preallocated-temp among"),
    ];
    for (text, expected) in cases {
        let answer = ringfence_with_input(&["plan", "-"], text.as_bytes());
        assert_eq!(answer.code, Some(1), "{expected}: {}", answer.out);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
        assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
    }
}

/// Returns a TVM array of `BufferInfo`, as `tvm.ir.save_json` writes it. Each buffer is given by its size, its
/// alignment and the numbers of the buffers that it conflicts with.
fn tvm(buffers: &[(u64, u64, &[usize])]) -> Value {
    let mut nodes = vec![json!({ "type_key": "" })];
    let place = |buffer: usize| 2 + buffer * 5;
    let all: Vec<usize> = (0..buffers.len()).map(place).collect();
    nodes.push(json!({ "type_key": "Array", "data": all }));
    for (own, (size, alignment, conflicts)) in buffers.iter().enumerate() {
        let at = |field: usize| (place(own) + field).to_string();
        nodes.push(json!({ "type_key": "tir.usmp.BufferInfo", "attrs": {
            "alignment": at(1), "conflicts": at(2), "kind": "0", "name_hint": at(3), "pool_candidates": "0",
            "size_bytes": at(4),
        } }));
        let integer =
            |value: &u64| json!({ "type_key": "IntImm", "attrs": { "dtype": "int32", "value": value.to_string() } });
        nodes.push(integer(alignment));
        let conflicts: Vec<usize> = conflicts.iter().map(|&other| place(other)).collect();
        nodes.push(if conflicts.is_empty() {
            json!({ "type_key": "Array" })
        } else {
            json!({ "type_key": "Array", "data": conflicts })
        });
        nodes.push(json!({ "type_key": "runtime.String", "repr_str": format!("sid_{own}") }));
        nodes.push(integer(size));
    }
    json!({ "root": 1, "nodes": nodes, "b64ndarrays": [], "attrs": { "tvm_version": "0.15.0" } })
}

#[test]
fn conflicts_of_tvm_become_lifetimes_that_have_them() {
    // Buffer 0 conflicts with 1, 1 with 2, and 2 with 3. Buffer 4 has no conflicts.
    let dump = tvm(&[(100, 16, &[1]), (200, 16, &[0, 2]), (300, 16, &[1, 3]), (50, 16, &[2]), (1, 64, &[])]);
    let rows = planned(&[], &serde_json::to_string_pretty(&dump).expect("it is JSON"));
    assert_eq!(rows[1][3..6], ["100", "16", "sid_0"].map(str::to_owned));
    let number = |row: usize, column: usize| rows[row + 1][column].parse::<u64>().expect("a number");
    for a in 0..5 {
        for b in 0..a {
            let overlap = number(a, 1) < number(b, 2) && number(b, 1) < number(a, 2);
            assert_eq!(overlap, a == b + 1 && a < 4, "{a} and {b}");
        }
    }
    let answer = ringfence_with_input(&["plan", "-", "--json"], dump.to_string().as_bytes());
    let json: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    // 200 is at 304 above 300, because 300 is not a multiple of 16, or in another plan of the same height.
    assert_eq!((json["load_bytes"].as_u64(), json["rows"].as_u64()), (Some(500), Some(5)));
}

/// As [`tvm`], with pools: a node for each pool, and for each buffer the pools that it may use, the preferred one
/// first.
fn tvm_with_pools(buffers: &[(u64, u64, &[usize])], pools: &[&str], candidates: &[&[usize]]) -> Value {
    let mut dump = tvm(buffers);
    let nodes = dump["nodes"].as_array_mut().expect("a list");
    let first = nodes.len();
    for (number, name) in pools.iter().enumerate() {
        let kind = if number == 0 { "ir.ConstantPoolInfo" } else { "ir.WorkspacePoolInfo" };
        let name_at = (nodes.len() + 1).to_string();
        nodes.push(json!({ "type_key": kind, "attrs": { "pool_name": name_at, "size_hint_bytes": "0" } }));
        nodes.push(json!({ "type_key": "runtime.String", "repr_str": name }));
    }
    for (own, list) in candidates.iter().enumerate() {
        let list: Vec<usize> = list.iter().map(|pool| first + 2 * pool).collect();
        nodes[2 + own * 5]["attrs"]["pool_candidates"] = json!(nodes.len().to_string());
        nodes.push(json!({ "type_key": "Array", "data": list }));
    }
    dump
}

/// Returns a dump of two weights and two activations. Activations conflict only with each other.
fn two_pools() -> Value {
    let buffers: [(u64, u64, &[usize]); 4] = [(100, 16, &[2]), (64, 16, &[3]), (200, 16, &[0]), (32, 16, &[1])];
    tvm_with_pools(&buffers, &["weights", "work"], &[&[0], &[1], &[0], &[1, 0]])
}

#[test]
fn pools_of_tvm_are_heaps_of_their_own() {
    let rows = planned(&[], &two_pools().to_string());
    assert_eq!(rows[0][5..], ["name", "pool", "heaps", "offset", "heap"].map(str::to_owned));
    let lies = |row: usize| (rows[row][6].as_str(), rows[row][7].as_str(), rows[row][9].as_str());
    assert_eq!(
        [1, 2, 3, 4].map(lies),
        [("weights", "0", "0"), ("work", "1", "1"), ("weights", "0", "0"), ("work weights", "1 0", "1")]
    );
    let figures = |arguments: &[&str]| -> Value {
        let all = [&["plan", "-", "--json"], arguments].concat();
        let answer = ringfence_with_input(&all, two_pools().to_string().as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        serde_json::from_str(&answer.out).expect("it is JSON")
    };
    // The first heap has 200 and 100, the upper one aligned to 16; the second has 64 and 32.
    let json = figures(&[]);
    let of = |heap: usize| (json["heaps"][heap]["pool"].as_str(), json["heaps"][heap]["peak_bytes"].as_u64());
    assert_eq!((of(0), of(1)), ((Some("weights"), Some(308)), (Some("work"), Some(96))));
    // No plan is better. The bound is lower, because it ignores preferences: the 32 bytes may be placed beside the
    // weights.
    assert_eq!((&json["is_proven"], json["lower_bound_bytes"].as_u64()), (&true.into(), Some(300)));
    assert_eq!(figures(&["--heap", "1KiB", "--heap", "100"])["heaps"][1]["capacity_bytes"], 100);
    let one = ringfence_with_input(&["plan", "-", "--heap", "1KiB"], two_pools().to_string().as_bytes());
    assert!(one.err.contains("expected --heap once for each of its 2 pools, found 1"), "{}", one.err);
    // The output can be used as input. With one pool it has no column for pools.
    let again: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    assert_eq!(planned(&["--offsets", "replace"], &(again.join("\n") + "\n")), rows);
    let single = tvm_with_pools(&[(8, 1, &[1]), (8, 1, &[0])], &["all"], &[&[0], &[0]]);
    assert_eq!(planned(&[], &single.to_string())[0].len(), 7);
}

#[test]
fn conflicts_of_tvm_across_pools_need_no_lifetimes() {
    // The conflicts are a cycle of four buffers, two in each pool. Within each pool, the two buffers conflict.
    let ring: [(u64, u64, &[usize]); 4] = [(8, 1, &[1, 3]), (8, 1, &[0, 2]), (8, 1, &[1, 3]), (8, 1, &[2, 0])];
    let dump = tvm_with_pools(&ring, &["weights", "work"], &[&[0], &[0], &[1], &[1]]);
    let rows = planned(&[], &dump.to_string());
    assert!(rows[1][8] != rows[2][8] && rows[3][8] != rows[4][8], "{rows:?}");
}

#[test]
fn rows_of_tvm_come_in_the_order_of_the_roots_list() {
    let mut dump = tvm(&[(100, 16, &[1]), (200, 16, &[0]), (300, 16, &[0])]);
    // The root's list has the numbers of two nodes. The third buffer is not in the list, so it has no row and no
    // conflict.
    dump["nodes"][1]["data"] = json!([12, 2]);
    let rows = planned(&[], &dump.to_string());
    let names: Vec<&str> = rows[1..].iter().map(|row| row[5].as_str()).collect();
    assert_eq!(names, ["sid_2", "sid_0"]);
    assert_eq!((rows[1][3].as_str(), rows[2][3].as_str()), ("300", "100"));
    let bad = |what: Value| {
        let mut dump = dump.clone();
        dump["nodes"][1]["data"] = what;
        let answer = ringfence_with_input(&["plan", "-"], dump.to_string().as_bytes());
        assert!(answer.code == Some(1) && answer.err.contains("expected root to be the number of"), "{}", answer.err);
    };
    [json!([2, 2]), json!([2, 3]), json!([99]), json!("2")].into_iter().for_each(bad);
}

#[test]
fn what_is_wrong_with_a_dump_of_tvm_is_named() {
    let good = tvm(&[(100, 16, &[1]), (200, 16, &[0])]);
    let pretty = |dump: &Value| serde_json::to_string_pretty(dump).expect("it is JSON");
    let changed = |path: &str, value: Value| {
        let mut dump = good.clone();
        *dump.pointer_mut(path).expect("it is there") = value;
        pretty(&dump)
    };
    let cases = [
        ("{\n \"nodes\": [,\n".to_owned(), "standard input:2: expected JSON as of tvm.ir.save_json"),
        ("{}".to_owned(), "standard input: expected a list of nodes"),
        ("{\"nodes\": []}".to_owned(), "standard input: expected nodes of the kind tir.usmp.BufferInfo, found none"),
        (changed("/nodes/6/attrs/value", json!("0")), ": node 2: expected size_bytes to be above 0"),
        (changed("/nodes/3/attrs/value", json!("3")), ": node 2: expected alignment to be a power of two"),
        (changed("/nodes/7/attrs/size_bytes", json!("99")), ": node 7: expected size_bytes to be a whole number"),
        (changed("/nodes/9/data", json!([1])), ": node 7: expected conflicts to be a list of BufferInfo"),
        (
            changed("/nodes/2/attrs/pool_candidates", json!("3")),
            ": node 2: expected pool_candidates to be a list of pools",
        ),
    ];
    for (text, expected) in cases {
        let answer = ringfence_with_input(&["plan", "-", "--format", "tvm"], text.as_bytes());
        assert_eq!(answer.code, Some(1), "{expected}: {}", answer.out);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
    }
    let line = pretty(&good).lines().position(|line| line.contains("BufferInfo")).expect("there are some") + 1;
    let answer = ringfence_with_input(&["plan", "-"], changed("/nodes/6/attrs/value", json!("0")).as_bytes());
    assert!(answer.err.contains(&format!("standard input:{line}: node 2")), "{}", answer.err);
}

/// Dumps of TVM 0.16: a small residual network, and a network with two pools, the first of which is small.
const RESIDUAL: &str = include_str!("dumps/tvm_residual.json");
const TWO_POOLS: &str = include_str!("dumps/tvm_two_pools.json");

/// Returns `true` if buffers that conflict in the dump have no common bytes in a heap.
fn is_apart(dump: &str, rows: &[Vec<String>]) -> bool {
    let dump: Value = serde_json::from_str(dump).expect("it is JSON");
    let node = |field: &Value| &dump["nodes"][field.as_str().expect("a number").parse::<usize>().expect("a number")];
    let places = dump["nodes"][1]["data"].as_array().expect("the root's list");
    let column = |name: &str| rows[0].iter().position(|held| held == name);
    let at = |row: usize| {
        let field = |name| column(name).map_or("0", |column| &rows[row + 1][column]);
        let [offset, size] = ["offset", "size"].map(|name| field(name).parse::<u64>().expect("a number"));
        (field("heap").to_owned(), offset, offset + size)
    };
    // The further lifetimes of a buffer have the offset of the first.
    let again = column("again_of");
    let firsts = (places.len() + 1..rows.len()).map(|row| rows[row][again.expect("there is one")].parse::<usize>());
    let same = firsts.enumerate().all(|(more, first)| at(places.len() + more) == at(first.expect("a number")));
    same && places.iter().enumerate().all(|(own, place)| {
        let conflicts = &node(&dump["nodes"][place.as_u64().expect("a number") as usize]["attrs"]["conflicts"])["data"];
        conflicts.as_array().into_iter().flatten().all(|other| {
            let other = places.iter().position(|held| held == other).expect("it is listed");
            let (a, b) = (at(own), at(other));
            a.0 != b.0 || a.2 <= b.1 || b.2 <= a.1
        })
    })
}

/// The heights 3904, and 5696 with 12288, are those of hill climbing, the best of TVM's three algorithms.
#[test]
fn dumps_made_by_tvm_are_planned_as_low_as_by_its_best_algorithm() {
    let peaks = |text: &str| -> Vec<(String, u64)> {
        let answer = ringfence_with_input(&["plan", "-", "--json"], text.as_bytes());
        let json: Value = serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{}", answer.err));
        let heap = |heap: &Value| (heap["pool"].as_str()?.to_owned(), heap["peak_bytes"].as_u64()?).into();
        json["heaps"].as_array().expect("heaps").iter().filter_map(heap).collect()
    };
    let named = |name: &str, bytes: u64| (name.to_owned(), bytes);
    assert_eq!(peaks(RESIDUAL), [named("global_const_workspace", 1744), named("global_workspace", 3904)]);
    assert_eq!(peaks(TWO_POOLS), [named("sram", 5696), named("dram", 12288)]);
    for text in [RESIDUAL, TWO_POOLS] {
        let rows = planned(&[], text);
        assert!(is_apart(text, &rows), "{rows:?}");
        // The output can be used as input; it does not contain the sizes of the pools.
        let again: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
        assert!(is_apart(text, &planned(&["--offsets", "replace"], &(again.join("\n") + "\n"))));
    }
    // The network has two residuals, which call the same function. So some buffers have several lifetimes.
    let rows = planned(&[], RESIDUAL);
    assert_eq!(rows[0][8], "again_of");
    assert_eq!(rows[1..].iter().filter(|row| !row[8].is_empty()).count(), rows.len() - 1 - 19);
    let small = ringfence_with_input(&["plan", "-", "--heap", "5000", "--heap", "5000"], TWO_POOLS.as_bytes());
    assert_eq!(small.code, Some(2), "{}", small.out);
}

#[test]
fn rows_of_one_buffer_have_one_offset() {
    let text = "id,lower,upper,size,again_of\nw,0,2,8,\nx,2,6,8,\ny,1,3,4,\nz,5,7,4,\nw2,6,8,8,w\n";
    let rows = planned(&[], text);
    assert_eq!((&rows[1][5], &rows[5][5]), (&rows[2][5], &rows[1][5]));
    let peak = |arguments: &[&str]| {
        let all = [&["plan", "-", "--json"], arguments].concat();
        let json: Value = serde_json::from_str(&ringfence_with_input(&all, text.as_bytes()).out).expect("it is JSON");
        (json["peak_bytes"].as_u64(), json["rows"].as_u64())
    };
    assert_eq!(peak(&[]), (Some(12), Some(5)));
    assert_eq!(peak(&["--heap", "12"]), (Some(12), Some(5)));
    // With two heaps, buffer w is planned as if it were alive between its two lifetimes. This needs more than
    // necessary, so the plan is not proven.
    let json = ringfence_with_input(&["plan", "-", "--json", "--heap", "100", "--heap", "100"], text.as_bytes()).out;
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let bound = (json["lower_bound_bytes"].as_u64(), json["is_proven"].as_bool());
    assert_eq!((json["peak_bytes"].as_u64(), bound), (Some(20), (Some(12), Some(false))));
    let small = ringfence_with_input(&["plan", "-", "--heap", "12", "--heap", "1"], text.as_bytes());
    assert!(small.code == Some(2) && !small.err.contains("there is no plan"), "{}", small.err);
    let cases = [
        (text.replace("8,8,w", "8,9,w"), ":6: expected again_of to be the id of an earlier row of the same size"),
        (text.replace("8,8,w", "8,8,q"), ":6: expected again_of to be the id of an earlier row of the same size"),
        (text.replace("6,8,8,w", "1,8,8,w"), ":6: expected lifetimes of one buffer apart in time, line 2 has another"),
    ];
    for (text, expected) in cases {
        let answer = ringfence_with_input(&["plan", "-"], text.as_bytes());
        assert_eq!(answer.code, Some(1), "{expected}: {}", answer.out);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
    }
}

/// If recorded lifetimes are converted to conflicts in TVM's format, their plan is as low as the plan of the lifetimes.
#[test]
fn real_networks_of_tvm_come_out_as_low_from_their_conflicts() {
    let Some(folder) = cases() else { return };
    for case in ["alloc_max", "deep_speech", "five", "simple"] {
        let text = std::fs::read_to_string(folder.join("alias/tvm").join(case).with_extension("csv")).expect("a file");
        let rows: Vec<[u64; 4]> = text
            .lines()
            .skip(1)
            .map(|line| {
                let fields: Vec<u64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
                [fields[0], fields[1], fields[2], fields[3]]
            })
            .collect();
        let overlap = |a: &[u64; 4], b: &[u64; 4]| a[0] != b[0] && a[1] < b[2] && b[1] < a[2];
        let conflicts: Vec<Vec<usize>> =
            rows.iter().map(|a| (0..rows.len()).filter(|&b| overlap(a, &rows[b])).collect()).collect();
        let buffers: Vec<_> = rows.iter().zip(&conflicts).map(|(row, list)| (row[3], 1, &list[..])).collect();
        let peak = |text: &str| {
            let answer = ringfence_with_input(&["plan", "-", "--json", "--time-limit", "1000"], text.as_bytes());
            let json: Value = serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{case}: {}", answer.err));
            (json["peak_bytes"].clone(), json["load_bytes"].clone(), json["is_proven"].clone())
        };
        assert_eq!(peak(&tvm(&buffers).to_string()), peak(&text), "{case}");
    }
}

/// A file with few columns, like MiniMalloc's, is read as CSV, also if it has many rows. With `--format csv`, a dump is
/// rejected.
#[test]
fn csv_is_never_taken_for_a_dump() {
    let mut text = "id,lower,upper,size\n".to_owned();
    for row in 0..500 {
        let _ = writeln!(text, "b{row},{row},{},{}", row + 7, 16 + row % 5);
    }
    assert_eq!(planned(&["--time-limit", "0.1"], &text).len(), 501);
    let answer = ringfence_with_input(&["plan", "-", "--format", "csv"], XLA.as_bytes());
    assert_eq!(answer.code, Some(1));
}
