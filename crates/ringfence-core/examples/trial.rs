//! x
use ringfence_core::alias::{Item, Problem, trial};
use std::time::Instant;
fn main() {
    let base = std::env::var("RINGFENCE_CASES").unwrap_or("../shared/data".into());
    let budget: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    for f in std::env::args().skip(2) {
        let (f, cap) = f.split_once(':').map_or((f.as_str(), 0), |(a, b)| (a, b.parse().unwrap()));
        let text = std::fs::read_to_string(format!("{base}/alias/{f}")).unwrap();
        let mut lines = text.lines();
        let head: Vec<_> = lines.next().unwrap().split(',').collect();
        let col = |n: &str| head.iter().position(|h| *h == n);
        let (l, u, s, a) = (col("lower").unwrap(), col("upper").unwrap(), col("size").unwrap(), col("alignment"));
        let items: Vec<Item> = lines
            .map(|line| {
                let c: Vec<_> = line.split(',').collect();
                let g = |i: usize| c[i].parse::<u64>().unwrap();
                Item::new(g(s), g(l), g(u)).aligned(a.map_or(1, g))
            })
            .collect();
        let mut t = Instant::now();
        let p = Problem::new(&items).unwrap();
        println!("== {f}");
        trial(&p, cap, budget, &mut |m| {
            println!("{m} {:?}", t.elapsed());
            t = Instant::now();
        });
    }
}
