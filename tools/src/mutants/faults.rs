//! Finds the places in a source file where a fault can be planted, and plants it. Knows syntax; knows neither the suite nor how to build.
//!
//! All faults of a sample are planted into one program, each guarded by a test whether it is the active one: so a sample
//! costs one build, and a fault costs one start of the program.

use std::ops::Range;

use super::tables;
use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, ReturnType, Stmt, Type, UnOp};

/// The function that guards each fault. Its module is added to the crate's root.
const GUARD: &str = "crate::planted_fault::on";

/// Size of the file that a server with faults shares with the judging process: the number of the active fault, then a mark for each
/// fault whose guard was evaluated.
pub const MAP_BYTES: usize = MARKS + (1 << 16);
/// Offset of the marks.
pub const MARKS: usize = 4;

/// The module that is added to the crate's root. One variable names the file; another sets the active fault, regardless of the file.
pub const MODULE: &str = r#"
#[allow(missing_docs, unsafe_code, clippy::all, clippy::disallowed_methods)]
pub(crate) mod planted_fault {
    use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::{Acquire, Relaxed, Release, SeqCst}};
    const BYTES: usize = 4 + (1 << 16);
    static STATE: AtomicU8 = AtomicU8::new(0);
    static MAP: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
    static SET: AtomicU32 = AtomicU32::new(u32::MAX);
    unsafe extern "C" {
        fn mmap(at: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    }
    /// What is done at first may allocate, and the allocator may ask in turn.
    pub(crate) fn on(id: u32) -> bool {
        if STATE.load(Acquire) != 2 && !begin() {
            return false;
        }
        let map = MAP.load(Relaxed);
        let set = SET.load(Relaxed);
        if map.is_null() {
            return set == id;
        }
        // Both lie in the mapping, which lives as long as the process.
        unsafe {
            (*map.add(4 + id as usize % (BYTES - 4)).cast::<AtomicU8>()).store(1, Relaxed);
            if set == u32::MAX { (*map.cast::<AtomicU32>()).load(Relaxed) == id } else { set == id }
        }
    }
    fn begin() -> bool {
        if STATE.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            return STATE.load(Acquire) == 2;
        }
        if let Some(id) = std::env::var("PLANTED_FAULT").ok().and_then(|id| id.parse().ok()) {
            SET.store(id, Relaxed);
        }
        if let Some(path) = std::env::var_os("PLANTED_FAULT_MAP") {
            if let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(path) {
                use std::os::fd::AsRawFd as _;
                let map = unsafe { mmap(std::ptr::null_mut(), BYTES, 3, 1, file.as_raw_fd(), 0) };
                if map as isize != -1 {
                    MAP.store(map, Relaxed);
                }
            }
        }
        STATE.store(2, Release);
        true
    }
}
"#;

/// A fault that can be planted.
#[derive(Clone)]
pub struct PlantableFault {
    /// Its line, from 1.
    pub line: usize,
    /// The function that contains it.
    pub function: String,
    /// A description of the change.
    pub what: String,
    /// The bytes that are replaced.
    range: Range<usize>,
    /// Their replacement, made of text and parts of the source.
    parts: Vec<FaultPart>,
}

#[derive(Clone)]
enum FaultPart {
    Text(String),
    /// The guard of this fault.
    Question,
    /// Bytes copied from the source.
    Source(Range<usize>),
}

/// Names that are confused with one another: methods of the same type whose difference the cases must detect.
const CONFUSABLE_NAMES: &[(&str, &str)] = &[
    ("all", "any"),
    ("any", "all"),
    ("ceil", "floor"),
    ("chars", "bytes"),
    ("ends_with", "starts_with"),
    ("find", "rfind"),
    ("first", "last"),
    ("floor", "ceil"),
    ("is_err", "is_ok"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_some", "is_none"),
    ("last", "first"),
    ("max", "min"),
    ("min", "max"),
    ("push_back", "push_front"),
    ("push_front", "push_back"),
    ("rfind", "find"),
    ("skip", "take"),
    ("starts_with", "ends_with"),
    ("take_while", "skip_while"),
    ("to_lowercase", "to_uppercase"),
    ("to_uppercase", "to_lowercase"),
    ("trim_end", "trim"),
    ("trim_start", "trim"),
];

/// All faults that can be planted into `source`; none if it cannot be parsed.
pub fn find(source: &str) -> Vec<PlantableFault> {
    let Ok(file) = syn::parse_file(source) else {
        return Vec::new();
    };
    let mut finder = FaultFinder {
        source,
        offsets: SourceOffsets::new(source),
        function: Vec::new(),
        found: Vec::new(),
    };
    finder.visit_file(&file);
    finder.found
}

/// `source` with `faults` planted under their numbers. If two overlap, only the first is planted. Returns the
/// numbers of the planted faults, with their ranges in the new text.
pub fn plant(
    source: &str,
    faults: &[(u32, &PlantableFault)],
) -> (String, Vec<(u32, Range<usize>)>) {
    let mut sorted: Vec<&(u32, &PlantableFault)> = faults.iter().collect();
    sorted.sort_by_key(|(_, fault)| (fault.range.start, fault.range.end));
    let (mut text, mut planted, mut end) = (String::new(), Vec::new(), 0);
    for (id, fault) in sorted {
        if fault.range.start < end {
            continue;
        }
        text.push_str(&source[end..fault.range.start]);
        let began = text.len();
        for part in &fault.parts {
            match part {
                FaultPart::Text(part) => text.push_str(part),
                FaultPart::Question => text.push_str(&format!("{GUARD}({id})")),
                FaultPart::Source(range) => text.push_str(&source[range.clone()]),
            }
        }
        end = fault.range.end;
        planted.push((*id, began..text.len()));
    }
    text.push_str(&source[end..]);
    (text, planted)
}

/// Converts the positions of syntax elements to byte offsets in a source text.
pub struct SourceOffsets<'s> {
    pub source: &'s str,
    lines: Vec<usize>,
}

impl<'s> SourceOffsets<'s> {
    /// Creates the converter for `source`.
    pub fn new(source: &'s str) -> Self {
        let lines = line_starts(source);
        Self { source, lines }
    }

    /// The byte range of a span.
    pub fn range(&self, span: Span) -> Range<usize> {
        self.offset(span.start())..self.offset(span.end())
    }

    /// The byte offset of a position, whose column is counted in characters.
    fn offset(&self, at: LineColumn) -> usize {
        let start = self.lines[at.line - 1];
        let line = &self.source[start..];
        let column = line.char_indices().nth(at.column);
        column.map_or(self.source.len(), |(bytes, _)| start + bytes)
    }
}

struct FaultFinder<'s> {
    source: &'s str,
    offsets: SourceOffsets<'s>,
    function: Vec<String>,
    found: Vec<PlantableFault>,
}

impl FaultFinder<'_> {
    fn range(&self, span: Span) -> Range<usize> {
        self.offsets.range(span)
    }

    /// Adds a fault that replaces the source at `span` with `on` while it is active.
    fn replace(&mut self, span: Span, what: String, on: Vec<FaultPart>) {
        let range = self.range(span);
        let mut parts = vec![
            FaultPart::Text("(if ".into()),
            FaultPart::Question,
            FaultPart::Text(" { ".into()),
        ];
        parts.extend(on);
        parts.push(FaultPart::Text(" } else { ".into()));
        parts.push(FaultPart::Source(range.clone()));
        parts.push(FaultPart::Text(" })".into()));
        self.add(span, what, range, parts);
    }

    fn add(&mut self, span: Span, what: String, range: Range<usize>, parts: Vec<FaultPart>) {
        let function = self.function.join("::");
        if function.is_empty() {
            return;
        }
        let line = span.start().line;
        self.found.push(PlantableFault {
            line,
            function,
            what,
            range,
            parts,
        });
    }

    fn shown(&self, span: Span) -> String {
        let text = self.source[self.range(span)].split_whitespace();
        let text = text.collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(60) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text,
        }
    }

    /// Visits a function, unless it is for tests only.
    fn function(
        &mut self,
        attributes: &[syn::Attribute],
        signature: &syn::Signature,
        block: &syn::Block,
    ) {
        let is_table = signature.ident.to_string().ends_with(TABLE);
        let is_account = ACCOUNTS.iter().any(|name| signature.ident == name)
            && !ALSO_WORDS.iter().any(|name| signature.ident == name);
        if is_test(attributes) || signature.constness.is_some() || is_table || is_account {
            return;
        }
        self.function.push(signature.ident.to_string());
        self.returns(block, &signature.output);
        visit::visit_block(self, block);
        self.function.pop();
    }

    /// Adds faults by which an arm gives the value of the next one, if neither pattern binds names.
    fn add_arm_swaps(&mut self, arms: &[syn::Arm]) {
        for pair in arms.windows(2) {
            let [one, next] = pair else { continue };
            let (body, other) = (one.body.span(), next.body.span());
            if binds(&one.pat)
                || binds(&next.pat)
                || !is_value(&one.body)
                || !is_value(&next.body)
                || self.shown(body) == self.shown(other)
            {
                continue;
            }
            let what = format!(
                "{} gives what {} gives",
                self.shown(one.pat.span()),
                self.shown(next.pat.span())
            );
            let on = vec![FaultPart::Source(self.range(other))];
            self.replace(body, what, on);
        }
    }

    /// Adds the faults of a table or another constant, if an accessor function was inserted for it.
    fn constant(&mut self, name: &syn::Ident, item: Span, value: &Expr) {
        let Some(begin) = tables::body(self.source, self.range(item).end) else {
            return;
        };
        let mut rows = TableFaultFinder {
            offsets: &self.offsets,
            found: Vec::new(),
        };
        rows.visit_expr(value);
        let (found, whole) = (rows.found, self.range(value.span()));
        self.function.push(name.to_string());
        for row in found {
            let mut parts = vec![
                FaultPart::Text("if ".into()),
                FaultPart::Question,
                FaultPart::Text(" { return const { &(".into()),
            ];
            let mut at = whole.start;
            for (range, with) in row.edits {
                parts.push(FaultPart::Source(at..range.start));
                parts.push(FaultPart::Text(with));
                at = range.end;
            }
            parts.push(FaultPart::Source(at..whole.end));
            parts.push(FaultPart::Text(") }; } ".into()));
            self.add(row.span, row.what, begin..begin, parts);
        }
        self.function.pop();
    }

    /// Adds faults by which a function returns at once.
    fn returns(&mut self, block: &syn::Block, output: &ReturnType) {
        if block.stmts.is_empty() {
            return;
        }
        let start = self.range(block.span()).start + 1;
        for value in values(output) {
            let parts = vec![
                FaultPart::Text(" if ".into()),
                FaultPart::Question,
                FaultPart::Text(format!(" {{ return {value}; }} ")),
            ];
            self.add(
                block.span(),
                format!("returns {value}"),
                start..start,
                parts,
            );
        }
    }
}

impl<'ast> Visit<'ast> for FaultFinder<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        if !is_account(expression) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // Output for debugging is no part of any answer.
        let is_debug = item.trait_.as_ref().is_some_and(|(_, path, _)| {
            path.segments
                .last()
                .is_some_and(|last| last.ident == "Debug")
        });
        if !is_debug && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    // Constants are evaluated before any fault can be active, so the fault goes into the accessor function.
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(&item.ident, item.span(), &item.expr);
    }
    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(&item.ident, item.span(), &item.expr);
    }
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !holds_let(&binary.left) && !holds_let(&binary.right) {
            let span = binary.span();
            let (left, right) = (
                self.range(binary.left.span()),
                self.range(binary.right.span()),
            );
            let operator = self.shown(binary.op.span());
            for other in replacement_operators(&binary.op) {
                let what = format!("{} becomes {other} in {}", operator, self.shown(span));
                let on = vec![
                    FaultPart::Source(left.clone()),
                    FaultPart::Text(format!(" {other} ")),
                    FaultPart::Source(right.clone()),
                ];
                self.replace(span, what, on);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let what = format!("without the sign: {}", self.shown(unary.span()));
            let on = vec![FaultPart::Source(self.range(unary.expr.span()))];
            self.replace(unary.span(), what, on);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        let span = literal.span();
        match &literal.lit {
            Lit::Int(int) => {
                if let Ok(value) = int.base10_parse::<u128>() {
                    let more = format!("{}{}", value.saturating_add(1), int.suffix());
                    self.replace(
                        span,
                        format!("{int} becomes {more}"),
                        vec![FaultPart::Text(more)],
                    );
                }
            }
            Lit::Bool(bool) => {
                let other = (!bool.value).to_string();
                self.replace(
                    span,
                    format!("{} becomes {other}", bool.value),
                    vec![FaultPart::Text(other)],
                );
            }
            Lit::Str(text) if is_word(&text.value()) => {
                let other = format!("{}_", text.value());
                let what = format!("{:?} becomes {other:?}", text.value());
                self.replace(span, what, vec![FaultPart::Text(format!("{other:?}"))]);
            }
            _ => {}
        }
    }

    /// Visits the words in JSON and list macros, keys and values alike.
    fn visit_expr_macro(&mut self, expression: &'ast syn::ExprMacro) {
        let name = expression.mac.path.segments.last();
        if !name.is_some_and(|name| MACROS.iter().any(|known| name.ident == known)) {
            return;
        }
        let mut words = Vec::new();
        words_in(expression.mac.tokens.clone(), &mut words);
        let whole = self.range(expression.span());
        for (span, word) in words {
            let here = self.range(span);
            let other = format!("{word}_");
            let on = vec![
                FaultPart::Source(whole.start..here.start),
                FaultPart::Text(format!("{other:?}")),
                FaultPart::Source(here.end..whole.end),
            ];
            self.replace(expression.span(), format!("{word:?} becomes {other:?}"), on);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        if name == "expect" {
            // The message is for debugging.
            self.visit_expr(&call.receiver);
            return;
        }
        for (_, other) in CONFUSABLE_NAMES.iter().filter(|(word, _)| *word == name) {
            let (whole, method) = (self.range(call.span()), self.range(call.method.span()));
            let what = format!("{name} becomes {other} in {}", self.shown(call.span()));
            let on = vec![
                FaultPart::Source(whole.start..method.start),
                FaultPart::Text((*other).to_owned()),
                FaultPart::Source(method.end..whole.end),
            ];
            self.replace(call.span(), what, on);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let last = expression.arms.last();
        let takes_all = |pat: &syn::Pat| match pat {
            syn::Pat::Wild(_) => true,
            // Constants are in capitals.
            syn::Pat::Ident(name) => {
                name.subpat.is_none()
                    && name
                        .ident
                        .to_string()
                        .starts_with(|first: char| first.is_lowercase())
            }
            _ => false,
        };
        let falls_through = last.is_some_and(|arm| takes_all(&arm.pat) && arm.guard.is_none());
        self.add_arm_swaps(&expression.arms);
        if falls_through {
            let arms = &expression.arms[..expression.arms.len() - 1];
            for arm in arms {
                let what = format!("without the arm {}", self.shown(arm.pat.span()));
                match &arm.guard {
                    None => {
                        let end = self.range(arm.pat.span()).end;
                        let parts = vec![FaultPart::Text(" if !".into()), FaultPart::Question];
                        self.add(arm.span(), what, end..end, parts);
                    }
                    Some((_, guard)) if !holds_let(guard) => {
                        let on = vec![FaultPart::Text("false".into())];
                        self.replace(guard.span(), what, on);
                        let what = format!("whatever {} says", self.shown(guard.span()));
                        self.replace(guard.span(), what, vec![FaultPart::Text("true".into())]);
                    }
                    Some(_) => {}
                }
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if matches!(statement, Stmt::Expr(expression, _) if is_account(expression)) {
            return;
        }
        if let Stmt::Expr(
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Try(_) | Expr::Await(_),
            Some(_),
        ) = statement
        {
            let span = statement.span();
            let range = self.range(span);
            let what = format!("without {}", self.shown(span));
            let parts = vec![
                FaultPart::Text("if !".into()),
                FaultPart::Question,
                FaultPart::Text(" { ".into()),
                FaultPart::Source(range.clone()),
                FaultPart::Text(" }".into()),
            ];
            self.add(span, what, range, parts);
        }
        visit::visit_stmt(self, statement);
    }
}

/// The operators that an operator is replaced with.
fn replacement_operators(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitXor(_) => &["|"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitOrAssign(_) => &["&="],
        _ => &[],
    }
}

/// The values that a function may return instead, by its type as written.
fn values(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, of) => replacement_values(of),
    }
}

fn replacement_values(of: &Type) -> Vec<String> {
    match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".into()],
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => {
                vec!["\"\"".into(), "\"xyzzy\"".into()]
            }
            Type::Slice(_) => vec!["&[]".into()],
            _ => Vec::new(),
        },
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else {
                return Vec::new();
            };
            let inner = || match &last.arguments {
                syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                    Some(syn::GenericArgument::Type(inner)) => replacement_values(inner),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
            match last.ident.to_string().as_str() {
                "bool" => vec!["true".into(), "false".into()],
                "usize" | "u64" | "u32" | "u16" | "u8" | "i64" | "i32" | "isize" => {
                    vec!["0".into(), "1".into()]
                }
                "f64" => vec!["0.0".into(), "-1.0".into()],
                "String" => vec!["String::new()".into(), "String::from(\"xyzzy\")".into()],
                "Vec" => vec!["Vec::new()".into()],
                "Option" => {
                    let mut values = vec!["None".to_owned()];
                    values.extend(inner().iter().map(|value| format!("Some({value})")));
                    values
                }
                "Result" => inner().iter().map(|value| format!("Ok({value})")).collect(),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Mistakes in writing a table: a row is omitted, two rows exchange their values, a number is off by
/// one, a word is misspelt.
struct TableFaultFinder<'s> {
    offsets: &'s SourceOffsets<'s>,
    found: Vec<Row>,
}

struct Row {
    span: Span,
    what: String,
    edits: Vec<(Range<usize>, String)>,
}

impl TableFaultFinder<'_> {
    fn text(&self, span: Span) -> &str {
        &self.offsets.source[self.offsets.range(span)]
    }

    fn shown(&self, span: Span) -> String {
        let text: Vec<&str> = self.text(span).split_whitespace().collect();
        let text = text.join(" ");
        match text.char_indices().nth(60) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text,
        }
    }

    fn add(&mut self, span: Span, what: String, edits: Vec<(Range<usize>, String)>) {
        self.found.push(Row { span, what, edits });
    }

    /// The values that two rows may exchange: the last pair that differs.
    fn values<'e>(&self, one: &'e Expr, other: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
        let parts = |row: &'e Expr| -> Vec<&'e Expr> {
            match row {
                Expr::Tuple(tuple) => tuple.elems.iter().collect(),
                Expr::Call(call) => call.args.iter().collect(),
                Expr::Struct(made) => made.fields.iter().map(|field| &field.expr).collect(),
                _ => Vec::new(),
            }
        };
        let (one, other) = (parts(one), parts(other));
        let same_length = one.len() == other.len() && one.len() > 1;
        let mut pairs = one.into_iter().zip(other).skip(1).collect::<Vec<_>>();
        pairs.retain(|(one, other)| self.text(one.span()) != self.text(other.span()));
        pairs.pop().filter(|_| same_length)
    }
}

impl<'ast> Visit<'ast> for TableFaultFinder<'_> {
    fn visit_expr_array(&mut self, array: &'ast syn::ExprArray) {
        let rows: Vec<&Expr> = array.elems.iter().collect();
        for (at, row) in rows.iter().enumerate() {
            let here = self.offsets.range(row.span());
            let gone = match rows.get(at + 1) {
                Some(next) => here.start..self.offsets.range(next.span()).start,
                None => here,
            };
            self.add(
                row.span(),
                format!("without the row {}", self.shown(row.span())),
                vec![(gone, String::new())],
            );
        }
        for pair in rows.windows(2) {
            let Some((one, other)) = self.values(pair[0], pair[1]) else {
                continue;
            };
            let (first, second) = (
                self.text(one.span()).to_owned(),
                self.text(other.span()).to_owned(),
            );
            let what = format!(
                "{} and {} change places",
                self.shown(one.span()),
                self.shown(other.span())
            );
            let edits = vec![
                (self.offsets.range(one.span()), second),
                (self.offsets.range(other.span()), first),
            ];
            self.add(one.span(), what, edits);
        }
        visit::visit_expr_array(self, array);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        let other = match &literal.lit {
            Lit::Int(int) => int
                .base10_parse::<u128>()
                .ok()
                .map(|value| format!("{}{}", value.saturating_add(1), int.suffix())),
            Lit::Float(float) => float
                .base10_parse::<f64>()
                .ok()
                .map(|value| format!("{:?}{}", value + 1.0, float.suffix())),
            Lit::Bool(bool) => Some((!bool.value).to_string()),
            Lit::Char(char) => Some(format!(
                "{:?}",
                char::from_u32(char.value() as u32 + 1).unwrap_or('?')
            )),
            Lit::Str(text) if is_word_like(&text.value()) => {
                Some(format!("{:?}", misspell(&text.value())))
            }
            _ => None,
        };
        if let Some(other) = other {
            let span = literal.span();
            self.add(
                span,
                format!("{} becomes {other}", self.shown(span)),
                vec![(self.offsets.range(span), other)],
            );
        }
    }

    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}
    fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    fn visit_type(&mut self, _: &'ast Type) {}
}

/// Whether a text in a table is a word rather than a sentence.
fn is_word_like(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// The text with its last character changed.
fn misspell(text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    if let Some(last) = characters.last_mut() {
        *last = match *last {
            'z' => 'y',
            'Z' => 'Y',
            '9' => '8',
            sign if sign.is_ascii_alphanumeric() => char::from(sign as u8 + 1),
            '~' => '^',
            _ => '~',
        };
    }
    characters.into_iter().collect()
}

/// Whether a pattern binds names.
fn binds(pattern: &syn::Pat) -> bool {
    struct Names(bool);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, _: &'ast syn::PatIdent) {
            self.0 = true;
        }
    }
    let mut names = Names(false);
    names.visit_pat(pattern);
    names.0
}

/// Whether the body of an arm is a plain value: a word, a number, one of several names.
fn is_value(body: &Expr) -> bool {
    match body {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_value),
        Expr::Call(call) => call.args.iter().all(is_value),
        Expr::Reference(reference) => is_value(&reference.expr),
        Expr::Unary(unary) => is_value(&unary.expr),
        _ => false,
    }
}

/// Suffix of the accessor functions of constants.
const TABLE: &str = "__table";

/// Accounting: functions that count steps and bytes, and that make room. They determine the count at which a limit takes effect, which is
/// not specified; the language's audit checks that every loop is charged, and the pages about limits check that there are limits.
/// Faults are planted neither into these functions nor into calls of them, including the arguments.
pub const ACCOUNTS: &[&str] = &[
    "change",
    "charge",
    "charge_large",
    "charge_text",
    "check_limits",
    "copy_bytes",
    "heap_bytes",
    "held_bytes",
    "look",
    "refuel",
    "reserve",
    "reserve_bits",
    "reserve_exact",
    "reserve_large",
    "reserve_values",
    "shrink_to_fit",
    "tick",
    "walk",
    "walk_both",
    "walk_weight",
    "with_capacity",
    "work",
];

/// Those that are also names of other functions; they count as accounting only when called as methods.
const ALSO_WORDS: &[&str] = &["change", "charge", "look", "tick", "walk", "work"];

/// The module of the language whose functions only count steps.
const CLOCK: &str = "clock";

/// Whether an expression is such a call, possibly with `?`.
fn is_account(expression: &Expr) -> bool {
    match expression {
        Expr::Try(tried) => is_account(&tried.expr),
        Expr::MethodCall(call) => ACCOUNTS.iter().any(|name| call.method == name),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                let segments = &path.path.segments;
                segments.last().is_some_and(|last| {
                    let named = |names: &[&str]| names.iter().any(|name| last.ident == name);
                    named(ACCOUNTS) && !named(ALSO_WORDS)
                }) || segments.len() > 1 && segments[segments.len() - 2].ident == CLOCK
            }
            _ => false,
        },
        _ => false,
    }
}

/// Macros whose words are visited.
const MACROS: &[&str] = &["json", "vec"];

/// Whether a text is a key, a header name, a reason or the like, which programs read rather than people.
fn is_word(text: &str) -> bool {
    text.len() > 1
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-/.$".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn words_in(tokens: proc_macro2::TokenStream, found: &mut Vec<(Span, String)>) {
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Group(group) => words_in(group.stream(), found),
            proc_macro2::TokenTree::Literal(literal) => {
                let span = literal.span();
                if let Lit::Str(text) = Lit::new(literal)
                    && is_word(&text.value())
                {
                    found.push((span, text.value()));
                }
            }
            _ => {}
        }
    }
}

/// Whether an operand is a `let`, which is not an expression by itself.
fn holds_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

/// Whether an item exists only for tests or with a feature.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if ["test", "feature"].iter().any(|word| list.tokens.to_string().contains(word)))
    })
}

fn line_starts(source: &str) -> Vec<usize> {
    let ends = source.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}
