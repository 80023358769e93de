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
//! Conflicts stand for lifetimes: these are found again from them. Pools are not read; all lie in one.

use std::collections::HashMap;

use serde_json::Value;

use super::{Read, Row, intervals};

const KIND: &str = "tir.usmp.BufferInfo";

/// The rows; TVM's own plan is not in the dump.
pub fn read(text: &str) -> Read {
    let json: Value = serde_json::from_str(text)
        .map_err(|error| format!(":{}: expected JSON as of tvm.ir.save_json: {error}", error.line()))?;
    let nodes = json["nodes"].as_array().ok_or(": expected a list of nodes, as of tvm.ir.save_json")?;
    let is_buffer = |node: &&Value| node["type_key"] == KIND;
    let places: Vec<usize> = (0..nodes.len()).filter(|&place| is_buffer(&&nodes[place])).collect();
    if places.is_empty() {
        return Err(format!(": expected nodes of the kind {KIND}, found none"));
    }
    let number: HashMap<usize, usize> = places.iter().enumerate().map(|(number, &place)| (place, number)).collect();
    let lines = lines(text);
    let line = |number: usize| lines.get(number).copied().unwrap_or(1);
    let mut rows = Vec::with_capacity(places.len());
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
            let other = other.as_u64().and_then(|place| number.get(&(place as usize)).copied());
            let other = other.ok_or_else(|| bad("conflicts", "a list of BufferInfo"))?;
            if other != own {
                conflicts[own].push(other);
                conflicts[other].push(own);
            }
        }
        let id = own as u64;
        rows.push(Row { id, lower: 0, upper: 0, size, alignment: Some(alignment), name, line: line(own) });
    }
    let Some(lifetimes) = intervals::of_conflicts(conflicts) else {
        return Err(": expected conflicts that lifetimes on one line of time have, found others".to_owned());
    };
    for (row, (lower, upper)) in rows.iter_mut().zip(lifetimes) {
        (row.lower, row.upper) = (lower, upper);
    }
    Ok((rows, None))
}

/// The node that a field names by its number, as text.
fn node<'n>(nodes: &'n [Value], field: &Value) -> Option<&'n Value> {
    nodes.get(field.as_str()?.parse::<usize>().ok()?)
}

/// The lines of the nodes, in their order.
fn lines(text: &str) -> Vec<u64> {
    let quoted = format!("\"{KIND}\"");
    let numbered = (1..).zip(text.lines());
    numbered.flat_map(|(line, text)| std::iter::repeat_n(line, text.matches(&quoted).count())).collect()
}
