//! TVM's `BufferInfo`, as TVM's Unified Static Memory Planner (USMP) passes them to a planner:
//! `tvm.ir.save_json(buffer_info_array)`.
//!
//! ```text
//!   { "root": 1, "nodes": [ …,
//!       { "type_key": "tir.usmp.BufferInfo",
//!         "attrs": { "name_hint": "7", "size_bytes": "8", "alignment": "9", "conflicts": "10", … } },   numbers of nodes
//!       { "type_key": "runtime.String", "repr_str": "sid_4" }, { "type_key": "IntImm", "attrs": { "value": "802816" } },
//!       { "type_key": "Array", "data": [2, 5] }, … ] }
//! ```
//!
//! The rows have the order of the root's list. The dump has conflicts instead of lifetimes, and the lifetimes are
//! computed from the conflicts. If a function is called several times, its one workspace is alive in each call. If one
//! lifetime per buffer cannot explain the conflicts, some buffers get several lifetimes; the further ones are rows at
//! the end.
//!
//! If there are several pools, or one with a limited size, each pool becomes a heap. Heaps are numbered in the order in
//! which the pools appear in the dump. A buffer may be placed in any of its `pool_candidates`; the first one is
//! preferred:
//!
//! ```text
//!   "pool_candidates": "11"  ─  { "type_key": "Array", "data": [12, 20] }
//!   12  ─  { "type_key": "ir.WorkspacePoolInfo", "attrs": { "pool_name": "13", "size_hint_bytes": "14", … } }
//!                      or ir.ConstantPoolInfo: weights                          -1: no limit
//! ```

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Dump, Read, Row, intervals};

const KIND: &str = "tir.usmp.BufferInfo";

/// Reads the rows. TVM's own plan is not in the dump, so `given_bytes` is `None`.
pub fn read(text: &str) -> Read {
    let json: Value = serde_json::from_str(text)
        .map_err(|error| format!(":{}: expected JSON as of tvm.ir.save_json: {error}", error.line()))?;
    let nodes = json["nodes"].as_array().ok_or(": expected a list of nodes, as of tvm.ir.save_json")?;
    if !nodes.iter().any(is_buffer) {
        return Err(format!(": expected nodes of the kind {KIND}, found none"));
    }
    let places = listed(&json["root"], nodes)?;
    let number: HashMap<usize, usize> = places.iter().enumerate().map(|(number, &place)| (place, number)).collect();
    let lines = lines(text, nodes);
    let line = |number: usize| lines.get(&places[number]).copied().unwrap_or(1);
    let mut rows = Vec::with_capacity(places.len());
    let mut pools = Vec::with_capacity(places.len());
    let mut conflicts = vec![Vec::new(); places.len()];
    for (own, &place) in places.iter().enumerate() {
        let bad = |field: &str, what: &str| {
            format!(":{}: node {place}: expected {field} to be {what}, as of tvm.ir.save_json", line(own))
        };
        let held = |field: &str| node(nodes, &nodes[place]["attrs"][field]);
        let integer = |field: &str| {
            let value = held(field).and_then(|node| node["attrs"]["value"].as_str()?.parse::<u64>().ok());
            value.ok_or_else(|| bad(field, "a whole number"))
        };
        let name = held("name_hint").and_then(|node| node["repr_str"].as_str()).unwrap_or_default().to_owned();
        let size = integer("size_bytes")?;
        if size == 0 {
            return Err(bad("size_bytes", "above 0"));
        }
        let alignment = integer("alignment")?;
        if !alignment.is_power_of_two() {
            return Err(bad("alignment", "a power of two"));
        }
        // An empty list has no `data` field.
        let list = held("conflicts").ok_or_else(|| bad("conflicts", "a list"))?;
        for other in list["data"].as_array().into_iter().flatten() {
            let other = other.as_u64().map(|place| place as usize);
            let other = other.filter(|&place| nodes.get(place).is_some_and(is_buffer));
            let other = other.ok_or_else(|| bad("conflicts", "a list of BufferInfo"))?;
            // Buffers that are not in the root's list are not planned.
            if let Some(&other) = number.get(&other).filter(|&&other| other != own) {
                conflicts[own].push(other);
                conflicts[other].push(own);
            }
        }
        pools.push(pools_of(nodes, &nodes[place]).ok_or_else(|| bad("pool_candidates", "a list of pools with names"))?);
        let id = own as u64;
        rows.push(Row { id, size, alignment: Some(alignment), name, line: line(own), ..Row::default() });
    }
    // Conflicts between buffers that share no pool do not restrict offsets. Without these conflicts, one lifetime per
    // buffer may suffice.
    let of_pools = within(&conflicts, &pools);
    let once = intervals::of_conflicts(conflicts).or_else(|| intervals::of_conflicts(of_pools.clone()));
    let sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    let several = || intervals::of_any_conflicts(&of_pools, &sizes);
    let lifetimes = once.map_or_else(several, |once| once.into_iter().map(|held| vec![held]).collect());
    let heap_bytes = number_pools(&mut rows, &pools);
    for (own, lifetimes) in lifetimes.into_iter().enumerate() {
        for (at, (lower, upper)) in lifetimes.into_iter().enumerate() {
            if at == 0 {
                (rows[own].lower, rows[own].upper) = (lower, upper);
            } else {
                rows.push(Row { id: rows.len() as u64, lower, upper, again_of: Some(own as u64), ..rows[own].clone() });
            }
        }
    }
    Ok(Dump { rows, given_bytes: None, heap_bytes })
}

fn is_buffer(node: &Value) -> bool {
    node["type_key"] == KIND
}

/// Returns the nodes of the buffers, in the order of the root's list.
fn listed(root: &Value, nodes: &[Value]) -> Result<Vec<usize>, String> {
    let what = ": expected root to be the number of a list of BufferInfo, each once, as of tvm.ir.save_json";
    let list = root.as_u64().and_then(|root| nodes.get(root as usize)?["data"].as_array()).ok_or(what)?;
    let mut seen = HashSet::new();
    let one = |place: &Value| {
        let place = place.as_u64()? as usize;
        nodes.get(place).filter(|node| is_buffer(node) && seen.insert(place)).map(|_| place)
    };
    let places: Option<Vec<usize>> = list.iter().map(one).collect();
    places.ok_or_else(|| what.to_owned())
}

/// Kind, name and size of a pool. The two texts are empty if the dump has no pools.
type Pool<'n> = (&'n str, &'n str, u64);

/// Returns the pools that a buffer may use, the preferred one first.
fn pools_of<'n>(nodes: &'n [Value], buffer: &'n Value) -> Option<Vec<Pool<'n>>> {
    let field = &buffer["attrs"]["pool_candidates"];
    // The node number 0 means that the field is absent.
    if field.is_null() || field == "0" {
        return Some(vec![("", "", u64::MAX)]);
    }
    let list = node(nodes, field)?["data"].as_array().filter(|list| !list.is_empty())?;
    let one = |place: &Value| {
        let pool = nodes.get(place.as_u64()? as usize)?;
        let name = node(nodes, &pool["attrs"]["pool_name"])?["repr_str"].as_str()?;
        let bytes = node(nodes, &pool["attrs"]["size_hint_bytes"]).and_then(|node| node["attrs"]["value"].as_str());
        // A size of -1 means that the pool has no limit.
        Some((pool["type_key"].as_str()?, name, bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX)))
    };
    list.iter().map(one).collect()
}

/// Returns the conflicts between buffers that have a pool in common.
fn within(conflicts: &[Vec<usize>], pools: &[Vec<Pool<'_>>]) -> Vec<Vec<usize>> {
    let meet = |a: usize, b: usize| pools[a].iter().any(|pool| pools[b].contains(pool));
    let same = |own: usize, list: &Vec<usize>| list.iter().copied().filter(|&other| meet(own, other)).collect();
    conflicts.iter().enumerate().map(|(own, list)| same(own, list)).collect()
}

/// Sets the pools that each row may use, and returns the size of each pool. If there is only one pool and it has no
/// limit, does nothing and returns an empty list.
fn number_pools(rows: &mut [Row], pools: &[Vec<Pool<'_>>]) -> Vec<u64> {
    let mut known: Vec<Pool<'_>> = Vec::new();
    for pool in pools.iter().flatten() {
        if !known.contains(pool) {
            known.push(*pool);
        }
    }
    if known.len() < 2 && known.iter().all(|pool| pool.2 == u64::MAX) {
        return Vec::new();
    }
    for (row, pools) in rows.iter_mut().zip(pools) {
        let number = |pool| known.iter().position(|held| held == pool).unwrap_or_default().to_string();
        let numbers: Vec<String> = pools.iter().map(number).collect();
        let names: Vec<&str> = pools.iter().map(|pool| pool.1).collect();
        row.pools = Some((numbers.join(" "), names.join(" ")));
    }
    known.iter().map(|pool| pool.2).collect()
}

/// Returns the node whose number, as text, is the value of a field.
fn node<'n>(nodes: &'n [Value], field: &Value) -> Option<&'n Value> {
    nodes.get(field.as_str()?.parse::<usize>().ok()?)
}

/// Returns the line of each buffer in the dump, by the number of its node.
fn lines(text: &str, nodes: &[Value]) -> HashMap<usize, u64> {
    let quoted = format!("\"{KIND}\"");
    let numbered = (1..).zip(text.lines());
    let lines = numbered.flat_map(|(line, text)| std::iter::repeat_n(line, text.matches(&quoted).count()));
    let places = nodes.iter().enumerate().filter(|(_, node)| is_buffer(node)).map(|(place, _)| place);
    places.zip(lines).collect()
}
