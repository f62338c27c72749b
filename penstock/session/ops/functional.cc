#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/functional_ops.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/scan_loop.h"

namespace penstock::session {
namespace {

using RowFunction = std::function<Tensors(const Tensors& row)>;
using FoldFunction = std::function<Tensors(const Tensors& a, const Tensors& row)>;

// The functions of one tensor as functions of lists; null stays null.
RowFunction OfLists(const std::function<Tensor(const Tensor&)>& fn) {
  if (fn == nullptr) return nullptr;
  return [fn](const Tensors& row) { return Tensors{fn(row[0])}; };
}

FoldFunction OfLists(const std::function<Tensor(const Tensor&, const Tensor&)>& fn) {
  if (fn == nullptr) return nullptr;
  return [fn](const Tensors& a, const Tensors& row) { return Tensors{fn(a[0], row[0])}; };
}

Tensors AsList(const Tensor& tensor) { return tensor.valid() ? Tensors{tensor} : Tensors{}; }

Tensor One(const Tensors& results) { return results.empty() ? Tensor() : results[0]; }

// The row with which a scan without initializer begins, and the other rows.
struct FirstAndRest {
  Tensors first, rest;
};

std::optional<FirstAndRest> TakeFirst(const std::string& name, const Tensors& elems, bool reverse,
                                      SourceLocation where) {
  FirstAndRest parts;
  for (const Tensor& x : elems) {
    const Tensors two = AddOps("Scan", {x}, name, where, [reverse](internal::In in) -> ir::Values {
      const int64_t rows = in[0].rank() == 0 ? 0 : in[0].shape().dim(0);
      if (rows == 0) {
        internal::Reject(in[0], "without an initializer it needs elems with at least one row, got ",
                         in[0].type().ToString());
        return {};
      }
      const int64_t first = reverse ? rows - 1 : 0, rest = reverse ? 0 : 1;
      return {ir::Squeeze(ir::SliceAxis(in[0], 0, first, first + 1), {0}),
              ir::SliceAxis(in[0], 0, rest, rest + rows - 1)};
    });
    if (two.size() != 2 || !two[0].valid()) return std::nullopt;
    parts.first.push_back(two[0]);
    parts.rest.push_back(two[1]);
  }
  return parts;
}

struct Fold {
  std::string name;
  bool reverse = false;
  bool keeps_all = false;  // Scan; otherwise the last values only
};

Tensors RunFold(const Fold& fold, const FoldFunction& fn, const Tensors& elems,
                const Tensors& initializer, SourceLocation where) {
  const Tensors none;
  Tensors all = elems;
  all.insert(all.end(), initializer.begin(), initializer.end());
  const auto fail = [&](absl::string_view message) {
    FailOp(all, fold.name, message, where);
    return none;
  };
  if (fn == nullptr) return fail("it needs a function");
  if (elems.empty()) return fail("there is no tensor whose rows it runs over");
  for (const Tensor& x : all) {
    if (!x.valid()) return fail("one of its tensors is invalid");
  }
  ScanLoop loop{.name = fold.name, .states = initializer, .xs = elems, .reverse = fold.reverse};
  if (initializer.empty()) {
    std::optional<FirstAndRest> parts = TakeFirst(fold.name, elems, fold.reverse, where);
    if (!parts.has_value()) return none;
    loop.states = std::move(parts->first);
    loop.xs = std::move(parts->rest);
  }
  const std::optional<ScanRow> done = AddScan(
      loop,
      [&](const Tensor&, const ScanRow& in) {
        const Tensors a = fn(in.states, in.rows);
        return ScanRow{.states = a, .rows = fold.keeps_all ? a : none};
      },
      where);
  if (!done.has_value()) return none;
  if (!fold.keeps_all) return done->states;
  if (!initializer.empty()) return done->rows;
  Tensors stacks;
  for (size_t i = 0; i < done->rows.size(); ++i) {
    const Tensor first = ExpandDims(loop.states[i], 0, "", where);
    stacks.push_back(fold.reverse ? Concat({done->rows[i], first}, 0, "", where)
                                  : Concat({first, done->rows[i]}, 0, "", where));
  }
  return stacks;
}

std::string Named(const FoldOptions& options, const char* name) {
  return options.name.empty() ? name : options.name;
}

}  // namespace

Tensors MapFn(const std::function<Tensors(const Tensors&)>& fn, const Tensors& elems,
              const MapFnOptions& options, SourceLocation where) {
  if (fn == nullptr) {
    FailOp(elems, absl::StrCat("MapFn '", options.name, "'"), "it needs a function", where);
    return {};
  }
  const std::optional<ScanRow> done = AddScan(
      {.name = options.name, .states = {}, .xs = elems},
      [&](const Tensor&, const ScanRow& in) { return ScanRow{.states = {}, .rows = fn(in.rows)}; },
      where);
  return done.has_value() ? done->rows : Tensors();
}

Tensor MapFn(const std::function<Tensor(const Tensor&)>& fn, const Tensor& elems,
             const MapFnOptions& options, SourceLocation where) {
  return One(MapFn(OfLists(fn), Tensors{elems}, options, where));
}

Tensors Scan(const FoldFunction& fn, const Tensors& elems, const Tensors& initializer,
             const ScanOptions& options, SourceLocation where) {
  return RunFold({options.name, options.reverse, true}, fn, elems, initializer, where);
}

Tensor Scan(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const Tensor& elems,
            const Tensor& initializer, const ScanOptions& options, SourceLocation where) {
  return One(Scan(OfLists(fn), Tensors{elems}, AsList(initializer), options, where));
}

Tensors Foldl(const FoldFunction& fn, const Tensors& elems, const Tensors& initializer,
              const FoldOptions& options, SourceLocation where) {
  return RunFold({Named(options, "foldl"), false, false}, fn, elems, initializer, where);
}

Tensor Foldl(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const Tensor& elems,
             const Tensor& initializer, const FoldOptions& options, SourceLocation where) {
  return One(Foldl(OfLists(fn), Tensors{elems}, AsList(initializer), options, where));
}

Tensors Foldr(const FoldFunction& fn, const Tensors& elems, const Tensors& initializer,
              const FoldOptions& options, SourceLocation where) {
  return RunFold({Named(options, "foldr"), true, false}, fn, elems, initializer, where);
}

Tensor Foldr(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const Tensor& elems,
             const Tensor& initializer, const FoldOptions& options, SourceLocation where) {
  return One(Foldr(OfLists(fn), Tensors{elems}, AsList(initializer), options, where));
}

}  // namespace penstock::session
