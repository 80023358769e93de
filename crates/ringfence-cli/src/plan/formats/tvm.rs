//! TVM's `BufferInfo`, as its Unified Static Memory Planner hands them to a planner:
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
//! Rows come in the order of the root's list. Conflicts stand for lifetimes: these are found again from them. A buffer
//! lies in the first pool of its `pool_candidates`; where there are several pools, each is a heap of its own, numbered
//! as they come:
//!
//! ```text
//!   "pool_candidates": "11"  ─  { "type_key": "Array", "data": [12, 20] }
//!   12  ─  { "type_key": "ir.WorkspacePoolInfo", "attrs": { "pool_name": "13", … } }      or ir.ConstantPoolInfo: weights
//! ```

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Read, Row, intervals};

const KIND: &str = "tir.usmp.BufferInfo";

/// The rows; TVM's own plan is not in the dump.
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
        // An empty list has no data at all.
        let list = held("conflicts").ok_or_else(|| bad("conflicts", "a list"))?;
        for other in list["data"].as_array().into_iter().flatten() {
            let other = other.as_u64().map(|place| place as usize);
            let other = other.filter(|&place| nodes.get(place).is_some_and(is_buffer));
            let other = other.ok_or_else(|| bad("conflicts", "a list of BufferInfo"))?;
            // What is not in the root's list is not planned.
            if let Some(&other) = number.get(&other).filter(|&&other| other != own) {
                conflicts[own].push(other);
                conflicts[other].push(own);
            }
        }
        pools.push(pool(nodes, &nodes[place]).ok_or_else(|| bad("pool_candidates", "a list of pools with names"))?);
        let id = own as u64;
        rows.push(Row { id, size, alignment: Some(alignment), name, line: line(own), ..Row::default() });
    }
    // Conflicts across pools say nothing about a place: without them there may still be lifetimes.
    let of_pools = || intervals::of_conflicts(within(&conflicts, &pools));
    let Some(lifetimes) = intervals::of_conflicts(conflicts.clone()).or_else(of_pools) else {
        return Err(": expected conflicts that lifetimes on one line of time have, found others".to_owned());
    };
    for (row, (lower, upper)) in rows.iter_mut().zip(lifetimes) {
        (row.lower, row.upper) = (lower, upper);
    }
    number_pools(&mut rows, &pools);
    Ok((rows, None))
}

fn is_buffer(node: &Value) -> bool {
    node["type_key"] == KIND
}

/// The nodes of the buffers, as the root's list has them.
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

/// Kind and name of a pool; both empty where the dump names none.
type Pool<'n> = (&'n str, &'n str);

/// The first pool that a buffer may lie in.
fn pool<'n>(nodes: &'n [Value], buffer: &'n Value) -> Option<Pool<'n>> {
    let field = &buffer["attrs"]["pool_candidates"];
    // Node 0 stands for nothing.
    if field.is_null() || field == "0" {
        return Some(("", ""));
    }
    let first = node(nodes, field)?["data"].get(0)?.as_u64()?;
    let pool = nodes.get(first as usize)?;
    let name = node(nodes, &pool["attrs"]["pool_name"])?["repr_str"].as_str()?;
    Some((pool["type_key"].as_str()?, name))
}

/// The conflicts of buffers that lie in the same pool.
fn within(conflicts: &[Vec<usize>], pools: &[Pool<'_>]) -> Vec<Vec<usize>> {
    let same =
        |own: usize, list: &Vec<usize>| list.iter().copied().filter(|&other| pools[other] == pools[own]).collect();
    conflicts.iter().enumerate().map(|(own, list)| same(own, list)).collect()
}

/// Says on each row in which pool it lies, where there are several.
fn number_pools(rows: &mut [Row], pools: &[Pool<'_>]) {
    let mut known: Vec<Pool<'_>> = Vec::new();
    for pool in pools {
        if !known.contains(pool) {
            known.push(*pool);
        }
    }
    if known.len() < 2 {
        return;
    }
    for (row, pool) in rows.iter_mut().zip(pools) {
        let number = known.iter().position(|held| held == pool).unwrap_or_default();
        row.pool = Some((number, pool.1.to_owned()));
    }
}

/// The node that a field names by its number, as text.
fn node<'n>(nodes: &'n [Value], field: &Value) -> Option<&'n Value> {
    nodes.get(field.as_str()?.parse::<usize>().ok()?)
}

/// The line of each buffer's node.
fn lines(text: &str, nodes: &[Value]) -> HashMap<usize, u64> {
    let quoted = format!("\"{KIND}\"");
    let numbered = (1..).zip(text.lines());
    let lines = numbered.flat_map(|(line, text)| std::iter::repeat_n(line, text.matches(&quoted).count()));
    let places = nodes.iter().enumerate().filter(|(_, node)| is_buffer(node)).map(|(place, _)| place);
    places.zip(lines).collect()
}
