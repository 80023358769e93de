//! Writes the sources with the switches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::list::Mutant;

/// Locations of the mutants in the written sources.
#[derive(Default)]
pub struct Written {
    /// By file: the bytes of each variant, and its mutants. A location inside another follows it.
    places: BTreeMap<String, Vec<(Range<usize>, Vec<usize>)>>,
    numbers: BTreeSet<usize>,
}

impl Written {
    pub fn holds(&self, number: usize) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns the mutants of the smallest location that contains these bytes of a file.
    pub fn at(&self, file: &str, bytes: &Range<usize>) -> Option<&[usize]> {
        let places = self.places.get(file)?.iter();
        let around = places.filter(|(place, _)| place.start <= bytes.start && bytes.end <= place.end);
        around.min_by_key(|(place, _)| place.len()).map(|(_, numbers)| numbers.as_slice())
    }

    /// Returns the mutants whose switches are in these bytes of a file.
    pub fn within(&self, file: &str, bytes: &Range<usize>) -> Vec<usize> {
        let places = self.places.get(file).into_iter().flatten();
        let inside = places.filter(|(place, _)| bytes.start <= place.start && place.end <= bytes.end);
        inside.flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }

    /// Returns the mutants of the first switch after these bytes of a file.
    pub fn after(&self, file: &str, bytes: &Range<usize>) -> Option<&[usize]> {
        let places = self.places.get(file)?.iter();
        let after = places.filter(|(place, _)| place.start >= bytes.end);
        after.min_by_key(|(place, _)| place.start).map(|(_, numbers)| numbers.as_slice())
    }

    /// Returns the mutants of the last switch before these bytes of a file.
    pub fn before(&self, file: &str, bytes: &Range<usize>) -> Option<&[usize]> {
        let places = self.places.get(file)?.iter();
        let before = places.filter(|(place, _)| place.end <= bytes.start);
        before.max_by_key(|(place, _)| place.end).map(|(_, numbers)| numbers.as_slice())
    }
}

/// A change of a location in a source.
enum Change {
    /// The operands, the original operator, and the mutants with their operators.
    Binary { left: Range<usize>, right: Range<usize>, operator: String, mutants: Vec<(usize, String)> },
    /// The mutant removes the operator.
    Unary { operand: Range<usize>, operator: String, mutant: usize },
    /// The mutants replace the value of the whole expression.
    Value { mutants: Vec<(usize, String)> },
    /// The mutants return a value at the start of the body.
    Body { mutants: Vec<(usize, String)> },
    /// The body of a function that returns `impl Iterator`: the mutants return iterators of other types.
    Iterator { mutants: Vec<(usize, String)> },
    /// The mutant removes an arm: a guard is added to its pattern, or its guard is changed.
    Arm { has_guard: bool, mutant: usize },
    /// The mutant removes a field of a struct expression, and reads it from the base value instead.
    Field { member: String, rest: String, mutant: usize },
}

/// Finds the locations of mutants in one file.
struct Finder<'a> {
    /// By genre and start.
    wanted: BTreeMap<(&'a str, (usize, usize)), Vec<&'a Mutant>>,
    changes: Vec<(Range<usize>, Change)>,
}

impl Finder<'_> {
    fn take(&self, genre: &str, at: proc_macro2::Span) -> Vec<(usize, String)> {
        let start = at.start();
        let found = self.wanted.get(&(genre, (start.line, start.column + 1)));
        found.into_iter().flatten().map(|mutant| (mutant.number, mutant.replacement.clone())).collect()
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let returns_impl =
            matches!(&signature.output, syn::ReturnType::Type(_, of) if matches!(**of, syn::Type::ImplTrait(_)));
        let Some(first) = block.stmts.first() else { return };
        let mutants = self.take("FnValue", first.span());
        if mutants.is_empty() {
            return;
        }
        let (start, end) =
            (block.brace_token.span.open().byte_range().end, block.brace_token.span.close().byte_range().start);
        let change = match returns_impl {
            true => (start..end, Change::Iterator { mutants }),
            false => (start..start, Change::Body { mutants }),
        };
        self.changes.push(change);
    }
}

/// Returns `true` if a condition binds names: then its parts cannot be moved.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.body(&item.sig, block));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let mutants = self.take("BinaryOperator", expr.op.span());
        let binds = has_let(&expr.left) || has_let(&expr.right);
        if !mutants.is_empty() && !binds {
            let (left, right) = (expr.left.span().byte_range(), expr.right.span().byte_range());
            let operator = expr.op.span().source_text().expect("an operator has a text");
            self.changes.push((left.start..right.end, Change::Binary { left, right, operator, mutants }));
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if let [(mutant, _)] = *self.take("UnaryOperator", expr.op.span()) {
            let operand = expr.expr.span().byte_range();
            let operator = expr.op.span().source_text().expect("an operator has a text");
            let start = expr.op.span().byte_range().start;
            self.changes.push((start..operand.end, Change::Unary { operand, operator, mutant }));
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        let text = |span: proc_macro2::Span| span.source_text().expect("a span of a source has a text");
        for field in &expr.fields {
            let Some((mutant, _)) = self.take("StructField", field.span()).pop() else { continue };
            let Some(rest) = &expr.rest else { continue };
            let name = text(field.member.span());
            let rest = match &**rest {
                syn::Expr::Call(_) => {
                    format!("{{ let rest: {} = {}; rest.{name} }}", text(expr.path.span()), text(rest.span()))
                }
                rest => format!("({}).{name}", text(rest.span())),
            };
            let member = if field.colon_token.is_none() { format!("{name}: ") } else { String::new() };
            self.changes.push((field.expr.span().byte_range(), Change::Field { member, rest, mutant }));
        }
        visit::visit_expr_struct(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let [(mutant, _)] = *self.take("MatchArm", arm.span()) {
            let end = arm.pat.span().byte_range().end;
            let guard = arm.guard.as_ref().map(|(_, guard)| guard.span().byte_range());
            let has_guard = guard.is_some();
            self.changes.push((guard.unwrap_or(end..end), Change::Arm { has_guard, mutant }));
        }
        if let Some((_, guard)) = &arm.guard {
            let mutants = self.take("MatchArmGuard", guard.span());
            if !mutants.is_empty() && !has_let(guard) {
                self.changes.push((guard.span().byte_range(), Change::Value { mutants }));
            }
        }
        visit::visit_arm(self, arm);
    }
}

/// Writes one file.
struct Writer<'a> {
    source: &'a str,
    /// The outer ones first.
    changes: &'a [(Range<usize>, Change)],
    text: String,
    places: Vec<(Range<usize>, Vec<usize>)>,
}

impl Writer<'_> {
    /// Copies the bytes of the source, with all changes inside them from `next` on.
    fn copy(&mut self, bytes: Range<usize>, next: usize) {
        let (mut at, mut index) = (bytes.start, next);
        while let Some((place, _)) = self.changes.get(index) {
            if place.start >= bytes.end && !place.is_empty() || place.start > bytes.end {
                break;
            }
            if place.start >= at && place.end <= bytes.end {
                self.text.push_str(&self.source[at..place.start]);
                self.change(index);
                at = place.end;
            }
            index += 1;
        }
        self.text.push_str(&self.source[at..bytes.end]);
    }

    fn variant(&mut self, number: usize, value: impl FnOnce(&mut Self)) {
        let start = self.text.len();
        self.text.push_str(&format!("if crate::mutant::on({number}) {{ "));
        value(self);
        self.text.push_str(" }");
        self.places.push((start..self.text.len(), vec![number]));
        self.text.push_str(" else ");
    }

    fn change(&mut self, index: usize) {
        let (start, changes) = (self.text.len(), self.changes);
        let (place, change) = &changes[index];
        let numbers = match change {
            Change::Body { mutants } => {
                for (number, value) in mutants {
                    self.variant(*number, |writer| writer.text.push_str(&format!("return {value};")));
                    self.text.push_str("{} ");
                }
                return;
            }
            Change::Iterator { mutants } => {
                self.text.push_str(" let instead: Option<::std::boxed::Box<dyn Iterator<Item = _> + '_>> = ");
                for (number, value) in mutants {
                    self.variant(*number, |writer| {
                        writer.text.push_str(&format!("Some(::std::boxed::Box::new({value}))"))
                    });
                }
                self.text.push_str("{ None }; crate::mutant::either(instead, {");
                self.copy(place.clone(), index + 1);
                mutants.iter().map(|(number, _)| *number).collect()
            }
            Change::Arm { has_guard, mutant } => {
                self.text.push_str(if *has_guard { "" } else { " if " });
                self.text.push_str(&format!("!crate::mutant::on({mutant})"));
                if *has_guard {
                    self.text.push_str(" && (");
                    self.copy(place.clone(), index + 1);
                    self.text.push(')');
                }
                self.places.push((start..self.text.len(), vec![*mutant]));
                return;
            }
            Change::Field { member, rest, mutant } => {
                self.text.push_str(&format!("{member}("));
                self.variant(*mutant, |writer| writer.text.push_str(rest));
                self.text.push_str("{ ");
                self.copy(place.clone(), index + 1);
                vec![*mutant]
            }
            Change::Binary { left, right, operator, mutants } => {
                let pair = |writer: &mut Self, operator: &str| {
                    writer.text.push('(');
                    writer.copy(left.clone(), index + 1);
                    writer.text.push_str(&format!(") {operator} ("));
                    writer.copy(right.clone(), index + 1);
                    writer.text.push(')');
                };
                self.text.push('(');
                mutants.iter().for_each(|(number, other)| self.variant(*number, |writer| pair(writer, other)));
                self.text.push_str("{ ");
                pair(self, operator);
                mutants.iter().map(|(number, _)| *number).collect()
            }
            Change::Unary { operand, operator, mutant } => {
                self.text.push('(');
                self.variant(*mutant, |writer| writer.copy(operand.clone(), index + 1));
                self.text.push_str(&format!("{{ {operator}"));
                self.copy(operand.clone(), index + 1);
                vec![*mutant]
            }
            Change::Value { mutants } => {
                self.text.push('(');
                let value = |writer: &mut Self, value: &str| writer.text.push_str(value);
                mutants.iter().for_each(|(number, other)| self.variant(*number, |writer| value(writer, other)));
                self.text.push_str("{ ");
                self.copy(place.clone(), index + 1);
                mutants.iter().map(|(number, _)| *number).collect()
            }
        };
        self.text.push_str(" })");
        self.places.push((start..self.text.len(), numbers));
    }
}

/// Writes the files that have mutants, without the mutants in `out`.
pub fn write(mutants: &[Mutant], out: &BTreeSet<usize>, from: &str, into: &str) -> Written {
    let mut written = Written::default();
    let files: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.file).collect();
    for file in files {
        let source = std::fs::read_to_string(Path::new(from).join(file)).expect("a file of the list can be read");
        let mut wanted: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for mutant in mutants.iter().filter(|mutant| mutant.file == *file && !out.contains(&mutant.number)) {
            wanted.entry((mutant.genre.as_str(), mutant.start)).or_default().push(mutant);
        }
        let mut finder = Finder { wanted, changes: Vec::new() };
        finder.visit_file(&syn::parse_file(&source).expect("a file of the list is Rust"));
        let mut changes = finder.changes;
        changes.sort_by_key(|(place, _)| (place.start, std::cmp::Reverse(place.end)));
        let mut writer = Writer { source: &source, changes: &changes, text: String::new(), places: Vec::new() };
        writer.copy(0..source.len(), 0);
        std::fs::write(Path::new(into).join(file), &writer.text).expect("a file can be written");
        written.numbers.extend(writer.places.iter().flat_map(|(_, numbers)| numbers));
        written.places.insert(file.clone(), writer.places);
    }
    written
}
