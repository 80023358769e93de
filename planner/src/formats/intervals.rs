//! Lifetimes from conflicts: computes an interval for each vertex of a graph, such that two intervals overlap if and
//! only if there is an edge between the vertices.
//!
//! ```text
//!   conflicts   a─b─c          moments   0   1          cliques in a row: {a, b}, {b, c}
//!                                        a a
//!                                        b b b b        a vertex lives from its first clique to its last
//!                                            c c
//! ```
//!
//! Lex-BFS (lexicographic breadth-first search) yields the maximal cliques and a tree of them. Refining the set of
//! cliques by the vertices on the tree's edges puts the cliques into a row in which the cliques of each vertex are
//! consecutive, if such a row exists (Habib, McConnell, Paul and Viennot, *Lex-BFS and partition refinement*, 2000,
//! algorithm 9). The result is checked at the end. O(n²) for n vertices.
//!
//! In other graphs no such row exists, so some vertices get several intervals: a greedy search finds a clique for each
//! edge, and a vertex is alive at the positions of its cliques in the row.

use std::collections::HashSet;

/// Returns the first moment of each lifetime, and the first moment after it. Returns `None` if no set of lifetimes has
/// exactly these conflicts. Each conflict must be listed at both vertices.
pub fn of_conflicts(mut conflicts: Vec<Vec<usize>>) -> Option<Vec<(u64, u64)>> {
    for list in &mut conflicts {
        list.sort_unstable();
        list.dedup();
    }
    let order = lex_bfs(&conflicts);
    let Cliques { cliques, edges } = Cliques::of(&conflicts, &order)?;
    let row = in_a_row(&cliques, edges, conflicts.len());
    let mut lifetimes = vec![(u64::MAX, 0_u64, 0_u64); conflicts.len()];
    for (moment, &clique) in row.iter().enumerate() {
        for &vertex in &cliques[clique] {
            let (first, after, count) = &mut lifetimes[vertex];
            *first = (*first).min(moment as u64);
            *after = moment as u64 + 1;
            *count += 1;
        }
    }
    let follow = |&(first, after, count): &(u64, u64, u64)| after - first == count;
    lifetimes.iter().all(follow).then(|| lifetimes.iter().map(|held| (held.0, held.1)).collect())
}

/// Returns the lifetimes of each vertex. A vertex has several lifetimes if one is not sufficient. Two vertices are
/// alive together if and only if they conflict. Each conflict must be listed at both vertices.
pub fn of_any_conflicts(conflicts: &[Vec<usize>], sizes: &[u64]) -> Vec<Vec<(u64, u64)>> {
    let near: Vec<HashSet<usize>> = conflicts.iter().map(|list| list.iter().copied().collect()).collect();
    let order = lex_bfs(conflicts);
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &vertex)| place[vertex] = at);
    let mut covered: HashSet<(usize, usize)> = HashSet::new();
    let mut cliques: Vec<Vec<usize>> = Vec::new();
    for &vertex in &order {
        // For each vertex: first the heaviest clique that contains it, then cliques for its edges that are not covered
        // yet.
        for second in std::iter::once(vertex).chain(conflicts[vertex].iter().copied()) {
            if covered.insert((vertex, second)) {
                let clique = grown(vertex, second, &near, sizes);
                covered.extend(clique.iter().flat_map(|&a| clique.iter().map(move |&b| (a, b))));
                cliques.push(clique);
            }
        }
    }
    // Vertices that are adjacent in the graph are near each other in the search order. So the cliques are sorted by the
    // middle of their positions in this order.
    cliques.sort_by_key(|clique| {
        let places = || clique.iter().map(|&vertex| place[vertex]);
        places().min().unwrap_or(0) + places().max().unwrap_or(0)
    });
    let mut lifetimes = vec![Vec::new(); order.len()];
    for (moment, clique) in (0..).zip(cliques) {
        for vertex in clique {
            let own: &mut Vec<(u64, u64)> = &mut lifetimes[vertex];
            match own.last_mut().filter(|last| last.1 == moment) {
                Some(last) => last.1 = moment + 1,
                None => own.push((moment, moment + 1)),
            }
        }
    }
    lifetimes
}

/// Returns a maximal clique that contains two vertices, which may be the same one. In each step, adds the vertex with
/// the largest size.
fn grown(first: usize, second: usize, near: &[HashSet<usize>], sizes: &[u64]) -> Vec<usize> {
    let mut clique = vec![first];
    let mut open: Vec<usize> = near[first].iter().copied().collect();
    let mut next = Some(second).filter(|&second| second != first);
    while let Some(vertex) = next.or_else(|| open.iter().copied().max_by_key(|&vertex| (sizes[vertex], vertex))) {
        clique.push(vertex);
        open.retain(|other| near[vertex].contains(other));
        next = None;
    }
    clique
}

/// Returns the vertices in the order of a lexicographic breadth-first search.
fn lex_bfs(conflicts: &[Vec<usize>]) -> Vec<usize> {
    let mut classes: Vec<Vec<usize>> = vec![(0..conflicts.len()).collect()];
    let mut order = Vec::with_capacity(conflicts.len());
    let mut is_next = vec![false; conflicts.len()];
    while order.len() < conflicts.len() {
        let first = classes.first_mut().expect("not all are in the order");
        let vertex = first.pop().expect("no class is empty");
        order.push(vertex);
        conflicts[vertex].iter().for_each(|&other| is_next[other] = true);
        let split = |class: Vec<usize>| {
            let (near, far): (Vec<usize>, Vec<usize>) = class.into_iter().partition(|&other| is_next[other]);
            [near, far]
        };
        classes = classes.into_iter().flat_map(split).filter(|class| !class.is_empty()).collect();
        conflicts[vertex].iter().for_each(|&other| is_next[other] = false);
    }
    order
}

/// The maximal cliques, in the order in which they were found, and the edges of a tree of these cliques.
struct Cliques {
    cliques: Vec<Vec<usize>>,
    edges: Vec<(usize, usize)>,
}

impl Cliques {
    /// Finds the cliques. Returns `None` if the graph has a cycle of four or more vertices without a chord.
    fn of(conflicts: &[Vec<usize>], order: &[usize]) -> Option<Self> {
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &vertex)| place[vertex] = at);
        let mut found = Self { cliques: Vec::new(), edges: Vec::new() };
        // The first clique that was found for each vertex.
        let mut own = vec![0; order.len()];
        for &vertex in order {
            let mut before: Vec<usize> =
                conflicts[vertex].iter().copied().filter(|&other| place[other] < place[vertex]).collect();
            let Some(&parent) = before.iter().max_by_key(|&&other| place[other]) else {
                own[vertex] = found.cliques.len();
                found.cliques.push(vec![vertex]);
                continue;
            };
            let joins = |&other: &usize| other == parent || conflicts[parent].binary_search(&other).is_ok();
            if !before.iter().all(joins) {
                return None;
            }
            let clique = own[parent];
            if found.cliques[clique].len() == before.len() {
                found.cliques[clique].push(vertex);
                own[vertex] = clique;
            } else {
                own[vertex] = found.cliques.len();
                found.edges.push((clique, own[vertex]));
                before.push(vertex);
                found.cliques.push(before);
            }
        }
        Some(found)
    }
}

/// Returns the cliques in a row. If there is a row in which the cliques of each vertex are consecutive, the result is
/// such a row.
fn in_a_row(cliques: &[Vec<usize>], mut edges: Vec<(usize, usize)>, vertex_count: usize) -> Vec<usize> {
    let mut holding: Vec<Vec<usize>> = vec![Vec::new(); vertex_count];
    for (clique, vertices) in cliques.iter().enumerate() {
        vertices.iter().for_each(|&vertex| holding[vertex].push(clique));
    }
    let mut classes: Vec<Vec<usize>> = vec![(0..cliques.len()).collect()];
    let (mut pivots, mut done): (Vec<usize>, Vec<bool>) = (Vec::new(), vec![false; vertex_count]);
    while let Some(wide) = classes.iter().position(|class| class.len() > 1) {
        let chosen: HashSet<usize> = match pivots.pop() {
            Some(vertex) => {
                if std::mem::replace(&mut done[vertex], true) {
                    continue;
                }
                let chosen: HashSet<usize> = holding[vertex].iter().copied().collect();
                refine(&mut classes, &chosen);
                chosen
            }
            None => {
                // The clique that was found last is at an end of the row.
                let last = *classes[wide].iter().max().expect("it holds several");
                classes[wide].retain(|&clique| clique != last);
                classes.insert(wide + 1, vec![last]);
                HashSet::from([last])
            }
        };
        edges.retain(|&(one, other)| {
            let crosses = chosen.contains(&one) != chosen.contains(&other);
            if crosses {
                pivots.extend(cliques[one].iter().filter(|vertex| cliques[other].contains(vertex)));
            }
            !crosses
        });
    }
    classes.into_iter().flatten().collect()
}

/// Splits the first and the last class that contain a chosen clique, so that the chosen cliques are adjacent.
fn refine(classes: &mut Vec<Vec<usize>>, chosen: &HashSet<usize>) {
    let holds = |class: &Vec<usize>| class.iter().any(|clique| chosen.contains(clique));
    let (Some(first), Some(last)) = (classes.iter().position(holds), classes.iter().rposition(holds)) else { return };
    if first == last {
        return;
    }
    let split =
        |class: &Vec<usize>| -> (Vec<usize>, Vec<usize>) { class.iter().partition(|clique| chosen.contains(clique)) };
    let (inside, outside) = split(&classes[last]);
    classes.splice(last..=last, [inside, outside].into_iter().filter(|class| !class.is_empty()));
    let (inside, outside) = split(&classes[first]);
    classes.splice(first..=first, [outside, inside].into_iter().filter(|class| !class.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::{of_any_conflicts, of_conflicts};

    /// Returns the conflicts of lifetimes, each listed at both vertices.
    fn conflicts(lifetimes: &[(u64, u64)]) -> Vec<Vec<usize>> {
        let overlap = |a: usize, b: usize| lifetimes[a].0 < lifetimes[b].1 && lifetimes[b].0 < lifetimes[a].1;
        let many = lifetimes.len();
        (0..many).map(|a| (0..many).filter(|&b| a != b && overlap(a, b)).collect()).collect()
    }

    #[test]
    fn lifetimes_are_found_that_have_the_same_conflicts() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..3_000 {
            let (many, span) = (random.usize(0..30), random.u64(2..40));
            let one = |_| {
                let lower = random.u64(0..span);
                (lower, lower + 1 + random.u64(0..1 + span / (1 + round % 5)))
            };
            let lifetimes: Vec<(u64, u64)> = (0..many).map(one).collect();
            let expected = conflicts(&lifetimes);
            let found = of_conflicts(expected.clone()).unwrap_or_else(|| panic!("none for {lifetimes:?}"));
            assert_eq!(conflicts(&found), expected, "{lifetimes:?}: {found:?}");
        }
    }

    #[test]
    fn any_conflicts_have_several_lifetimes_that_have_just_them() {
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..500 {
            let many = random.usize(0..20);
            let mut edges = vec![Vec::new(); many];
            for a in 0..many {
                for b in 0..a {
                    if random.usize(0..10) <= round % 10 {
                        edges[a].push(b);
                        edges[b].push(a);
                    }
                }
            }
            let sizes: Vec<u64> = (0..many).map(|_| random.u64(1..9)).collect();
            let found = of_any_conflicts(&edges, &sizes);
            let all: Vec<(usize, (u64, u64))> =
                found.iter().enumerate().flat_map(|(own, lives)| lives.iter().map(move |&held| (own, held))).collect();
            let mut lists = vec![Vec::new(); many];
            for &(a, (lower, upper)) in &all {
                let overlap = |&&(b, held): &&(usize, (u64, u64))| a != b && held.0 < upper && lower < held.1;
                lists[a].extend(all.iter().filter(overlap).map(|held| held.0));
            }
            for (list, expected) in lists.iter_mut().zip(&mut edges) {
                list.sort_unstable();
                list.dedup();
                expected.sort_unstable();
            }
            assert!(found.iter().all(|lives| !lives.is_empty()) && lists == edges, "{edges:?}: {found:?}");
        }
    }

    #[test]
    fn a_ring_of_four_and_a_star_of_long_arms_have_no_lifetimes() {
        let graph = |many: usize, edges: &[(usize, usize)]| {
            let mut lists = vec![Vec::new(); many];
            for &(a, b) in edges {
                lists[a].push(b);
                lists[b].push(a);
            }
            lists
        };
        assert_eq!(of_conflicts(graph(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])), None);
        assert_eq!(of_conflicts(graph(7, &[(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6)])), None);
    }
}
