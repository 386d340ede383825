//! Inserts accessor functions for constants, so that a fault can be planted in a table: constants are evaluated before any fault can be
//! active, but functions are called later. Knows only syntax; `faults` knows which faults a table can have.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Expr, Type};

use super::faults::{SourceOffsets, is_test};

/// The beginning of an accessor function, directly after its constant.
const MARK: &str = " #[allow(warnings, missing_docs, clippy::all)] ";

/// The start of the accessor function's body, for the constant whose item ends at `end`.
pub fn body(source: &str, end: usize) -> Option<usize> {
    let rest = source[end..].strip_prefix(MARK)?;
    Some(end + MARK.len() + rest.find("{ ")? + 2)
}

/// Makes code that runs call accessor functions instead of using constants. All code stays on its line.
pub fn prepare(sources: &mut [(String, String)]) {
    let parsed: Vec<Option<syn::File>> = sources
        .iter()
        .map(|(_, text)| syn::parse_file(text).ok())
        .collect();
    let (mut constants, mut barred) = (Vec::new(), BTreeSet::new());
    for (file, (parsed, (_, text))) in parsed.iter().zip(sources.iter()).enumerate() {
        let mut finder = ConstantFinder {
            file,
            offsets: SourceOffsets::new(text),
            owner: None,
            depth: 0,
            found: &mut constants,
            barred: &mut barred,
        };
        parsed.iter().for_each(|parsed| finder.visit_file(parsed));
    }
    constants
        .retain(|constant: &Constant| !barred.contains(&(constant.file, constant.name.clone())));
    let modules = sources.iter().map(|(name, _)| module(name)).collect();
    let known = KnownConstants { constants, modules };
    let mut edits: Vec<Vec<Edit>> = vec![Vec::new(); sources.len()];
    let mut asked = BTreeSet::new();
    for (file, (parsed, (_, text))) in parsed.iter().zip(sources.iter()).enumerate() {
        let mut uses = ConstantUses {
            file,
            known: &known,
            offsets: SourceOffsets::new(text),
            imported: BTreeMap::new(),
            owner: None,
            runs: false,
            edits: &mut edits[file],
            asked: &mut asked,
        };
        parsed.iter().for_each(|parsed| uses.visit_file(parsed));
    }
    // A constant that lists other constants needs accessor functions for these, too.
    for at in asked.clone() {
        let of = &known.constants[at];
        asked.extend(
            of.lists
                .iter()
                .flat_map(|path| known.resolve(of.file, None, path)),
        );
    }
    for at in asked {
        let constant = &known.constants[at];
        let text = known.function(constant);
        edits[constant.file].push((constant.end..constant.end, text));
    }
    for ((_, text), mut edits) in sources.iter_mut().zip(edits) {
        edits.sort_by_key(|(range, _)| range.start);
        for (range, with) in edits.into_iter().rev() {
            text.replace_range(range, &with);
        }
    }
}

type Edit = (Range<usize>, String);

/// A constant with a name, inside or outside of a function.
struct Constant {
    file: usize,
    /// The type that it belongs to.
    owner: Option<String>,
    name: String,
    /// Whether it is declared in a block, so that it is visible only there.
    is_local: bool,
    visibility: String,
    /// Its type, with explicit lifetimes.
    of: String,
    /// Where its item ends.
    end: usize,
    /// The constants that it lists, if it lists nothing else.
    lists: Vec<Vec<String>>,
}

struct KnownConstants {
    constants: Vec<Constant>,
    /// Package and module of each file.
    modules: Vec<(String, String)>,
}

impl KnownConstants {
    /// The constants that `path` may mean in `file`, inside an impl of `owner`; several, because modules may have the same name.
    fn resolve(&self, file: usize, owner: Option<&str>, path: &[String]) -> Vec<usize> {
        let Some((name, before)) = path.split_last() else {
            return Vec::new();
        };
        let found = |is_it: &dyn Fn(&Constant) -> bool| {
            let all = self.constants.iter().enumerate();
            all.filter(|(_, constant)| constant.name == *name && is_it(constant))
                .map(|(at, _)| at)
                .collect()
        };
        let Some(last) = before.last() else {
            return found(&|constant| constant.file == file && constant.owner.is_none());
        };
        if last == "Self" {
            return found(&|constant| {
                constant.file == file && constant.owner.as_deref() == owner && owner.is_some()
            });
        }
        let package = &self.modules[file].0;
        found(&|constant| {
            let (its_package, its_module) = &self.modules[constant.file];
            let is_here = match &constant.owner {
                Some(owner) => owner == last,
                None => its_module == last,
            };
            its_package == package && is_here && !constant.is_local
        })
    }

    /// The accessor function of a constant.
    fn function(&self, constant: &Constant) -> String {
        let Constant {
            visibility,
            of,
            name,
            ..
        } = constant;
        let value = match (&constant.owner, constant.lists.is_empty()) {
            (Some(_), _) => format!("&Self::{name}"),
            (None, true) => format!("&{name}"),
            (None, false) => {
                let lists = constant.lists.iter().map(|path| {
                    match self.resolve(constant.file, None, path).is_empty() {
                        false => accessor_call(path),
                        true => path.join("::"),
                    }
                });
                let lists: Vec<String> = lists.collect();
                format!(
                    "static ALL: std::sync::OnceLock<{of}> = std::sync::OnceLock::new(); ALL.get_or_init(|| Box::leak(vec![{}].into_boxed_slice()))",
                    lists.join(", ")
                )
            }
        };
        format!(
            "{MARK}{visibility} fn {}() -> &'static {of} {{ {value} }}",
            function_name(name)
        )
    }
}

/// The call that replaces a constant at `path`.
fn accessor_call(path: &[String]) -> String {
    let (name, before) = path.split_last().expect("a path has a name");
    let mut path = before.to_vec();
    path.push(format!("{}()", function_name(name)));
    format!("(*{})", path.join("::"))
}

fn function_name(name: &str) -> String {
    format!("{}__table", name.to_lowercase())
}

/// The package and the module of a file.
fn module(file: &str) -> (String, String) {
    let path = Path::new(file);
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let package = path
        .iter()
        .nth(1)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name = match stem(path).as_str() {
        "mod" => path.parent().map(stem).unwrap_or_default(),
        other => other.to_owned(),
    };
    (package, name)
}

struct ConstantFinder<'s> {
    file: usize,
    offsets: SourceOffsets<'s>,
    owner: Option<String>,
    depth: usize,
    found: &'s mut Vec<Constant>,
    /// Files and names of constants that can have no accessor function.
    barred: &'s mut BTreeSet<(usize, String)>,
}

impl ConstantFinder<'_> {
    fn constant(
        &mut self,
        attributes: &[syn::Attribute],
        visibility: &syn::Visibility,
        name: String,
        of: &Type,
        value: &Expr,
        end: usize,
    ) {
        let is_plain = attributes
            .iter()
            .all(|attribute| attribute.path().is_ident("doc"));
        let can_be_given = match of {
            Type::Reference(_) | Type::Array(_) => true,
            Type::Path(path) => path.path.segments.last().is_some_and(|last| {
                [
                    "usize", "u64", "u32", "u16", "u8", "i64", "i32", "f64", "Duration",
                ]
                .iter()
                .any(|known| last.ident == known)
            }),
            _ => false,
        };
        if !is_plain || !can_be_given || matches!(value, Expr::Block(_)) {
            self.barred.insert((self.file, name));
            return;
        }
        let mut lifetimes = Lifetimes {
            offsets: &self.offsets,
            missing: Vec::new(),
        };
        lifetimes.visit_type(of);
        let begin = self.offsets.range(of.span());
        let mut text = self.offsets.source[begin.clone()].to_owned();
        for at in lifetimes.missing.into_iter().rev() {
            text.insert_str(at - begin.start, "'static ");
        }
        let visibility = match visibility {
            syn::Visibility::Inherited => "",
            written => &self.offsets.source[self.offsets.range(written.span())],
        };
        let constant = Constant {
            file: self.file,
            owner: self.owner.clone(),
            name,
            is_local: self.depth > 0,
            visibility: visibility.to_owned(),
            of: text,
            end,
            lists: lists(value),
        };
        self.found.push(constant);
    }
}

/// Constants of modules and of types have the same parts, but no common type.
macro_rules! constant {
    ($finder:ident, $item:ident) => {
        let (name, end) = (
            $item.ident.to_string(),
            $finder.offsets.range($item.span()).end,
        );
        $finder.constant(&$item.attrs, &$item.vis, name, &$item.ty, &$item.expr, end);
    };
}

impl<'ast> Visit<'ast> for ConstantFinder<'_> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        constant!(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        if self.owner.is_some() {
            constant!(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        self.owner = match (&*item.self_ty, &item.trait_) {
            (Type::Path(path), None) => {
                path.path.segments.last().map(|last| last.ident.to_string())
            }
            _ => None,
        };
        let is_trait = item.trait_.is_some();
        for member in &item.items {
            match member {
                syn::ImplItem::Const(_) if is_trait => {}
                syn::ImplItem::Fn(function) => {
                    let owner = self.owner.take();
                    self.visit_impl_item_fn(function);
                    self.owner = owner;
                }
                other => self.visit_impl_item(other),
            }
        }
        self.owner = None;
    }

    // Constants that are private to a block or an inner module are not used from elsewhere.
    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}
    fn visit_item_trait(&mut self, _: &'ast syn::ItemTrait) {}
}

/// Finds references without an explicit lifetime.
struct Lifetimes<'s> {
    offsets: &'s SourceOffsets<'s>,
    missing: Vec<usize>,
}

impl<'ast> Visit<'ast> for Lifetimes<'_> {
    fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
        if reference.lifetime.is_none() {
            self.missing
                .push(self.offsets.range(reference.and_token.span()).end);
        }
        visit::visit_type_reference(self, reference);
    }

    // In these, an omitted lifetime means any.
    fn visit_type_bare_fn(&mut self, _: &'ast syn::TypeBareFn) {}
    fn visit_parenthesized_generic_arguments(
        &mut self,
        _: &'ast syn::ParenthesizedGenericArguments,
    ) {
    }
}

fn lists(value: &Expr) -> Vec<Vec<String>> {
    let Expr::Reference(reference) = value else {
        return Vec::new();
    };
    let Expr::Array(array) = &*reference.expr else {
        return Vec::new();
    };
    let paths = array.elems.iter().map(|element| match element {
        Expr::Path(path) if path.path.segments.len() > 1 => Some(words(&path.path)),
        _ => None,
    });
    paths.collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn words(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

/// Finds uses of constants in code that runs.
struct ConstantUses<'s> {
    file: usize,
    known: &'s KnownConstants,
    offsets: SourceOffsets<'s>,
    /// Names that the file imports, with their full paths.
    imported: BTreeMap<String, Vec<String>>,
    owner: Option<String>,
    runs: bool,
    edits: &'s mut Vec<Edit>,
    asked: &'s mut BTreeSet<usize>,
}

impl ConstantUses<'_> {
    fn within(&mut self, runs: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.runs, runs);
        visit(self);
        self.runs = before;
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String]) {
        match tree {
            syn::UseTree::Path(path) => {
                let mut before = before.to_vec();
                before.push(path.ident.to_string());
                self.import(&path.tree, &before);
            }
            syn::UseTree::Name(name) => {
                let mut path = before.to_vec();
                path.push(name.ident.to_string());
                let _other = self.imported.insert(name.ident.to_string(), path);
            }
            syn::UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|item| self.import(item, before));
            }
            syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for ConstantUses<'_> {
    fn visit_file(&mut self, file: &'ast syn::File) {
        for item in &file.items {
            if let syn::Item::Use(item) = item {
                self.import(&item.tree, &[]);
            }
        }
        visit::visit_file(self, file);
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        if !self.runs || expression.qself.is_some() {
            return;
        }
        let written = words(&expression.path);
        let path = match written.as_slice() {
            [name] => self.imported.get(name).unwrap_or(&written),
            _ => &written,
        };
        let found = self.known.resolve(self.file, self.owner.as_deref(), path);
        if !found.is_empty() {
            self.asked.extend(found);
            self.edits
                .push((self.offsets.range(expression.span()), accessor_call(path)));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let Type::Path(path) = &*item.self_ty else {
            return visit::visit_item_impl(self, item);
        };
        let name = path.path.segments.last().map(|last| last.ident.to_string());
        let before = std::mem::replace(&mut self.owner, name);
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.within(item.sig.constness.is_none(), |uses| {
                uses.visit_block(&item.block)
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.within(item.sig.constness.is_none(), |uses| {
                uses.visit_block(&item.block)
            });
        }
    }

    // In a constant's value only closures run later.
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(false, |uses| uses.visit_expr(&item.expr));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(false, |uses| uses.visit_expr(&item.expr));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(false, |uses| uses.visit_expr(&item.expr));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.within(true, |uses| uses.visit_expr(&closure.body));
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}
    fn visit_item_trait(&mut self, _: &'ast syn::ItemTrait) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
