// Views and in-place operations: what one tensor writes, the others see, as in PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/ops.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::views_test {

using test::ErrorOf;
using test::Make;
using test::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ViewsTest, WritesThroughViews) {
  for (const bool step : {false, true}) {
    Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
    Tensor row = select(x, 0, 1), column = select(transpose(x, 0, 1), 0, 2);
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    row.mul_(10);
    EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2, 3, 40, 50, 60));
    EXPECT_THAT(ValuesOf(column), ElementsAre(3, 60));
    column.add_(Make({2}, {0.5, 0.25}));
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2, 3.5, 40, 50, 60.25));
    EXPECT_THAT(ValuesOf(row), ElementsAre(40, 50, 60.25));
    x.zero_();
    EXPECT_THAT(ValuesOf(row), ElementsAre(0, 0, 0));
    EXPECT_THAT(ValuesOf(column), ElementsAre(0, 0));
  }
}

TEST(ViewsTest, ViewsOfViews) {
  Tensor x = Make({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  Tensor flat = reshape(x, {8}), middle = narrow(flat, 0, 2, 4), pair = reshape(middle, {2, 2});
  Tensor corner = select(t(pair), 1, 1);  // elements 4 and 5
  corner.fill_(-1);
  EXPECT_THAT(ValuesOf(x), ElementsAre(0, 1, 2, 3, -1, -1, 6, 7));
  EXPECT_THAT(ValuesOf(pair), ElementsAre(2, 3, -1, -1));
  pair.copy_(Make({2}, {8, 9}));
  EXPECT_THAT(ValuesOf(x), ElementsAre(0, 1, 8, 9, 8, 9, 6, 7));
}

TEST(ViewsTest, CopiesOfATensorAreTheTensor) {
  Tensor x = Make({2}, {1, 2}), same = x, copy = clone(x);
  x.add_(1);
  EXPECT_THAT(ValuesOf(same), ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf(copy), ElementsAre(1, 2));
}

TEST(ViewsTest, OverlappingSourceIsReadBeforeTheWrite) {
  Tensor x = Make({4}, {1, 2, 3, 4});
  narrow(x, 0, 1, 3).copy_(narrow(x, 0, 0, 3));
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 1, 2, 3));
  narrow(x, 0, 0, 2).add_(narrow(x, 0, 2, 2));
  EXPECT_THAT(ValuesOf(x), ElementsAre(3, 4, 2, 3));
}

TEST(ViewsTest, ViewOutlivesItsBase) {
  Tensor part;
  {
    Tensor x = Make({4}, {1, 2, 3, 4});
    x.mul_(2);
    part = narrow(x, 0, 1, 2);
  }
  ASSERT_TRUE(xm::mark_step().ok());
  part.add_(1);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(part), ElementsAre(5, 7));
  EXPECT_THAT(ValuesOf(part), ElementsAre(5, 7));
}

TEST(ViewsTest, GradientsThroughViewsAndInPlaceOnThem) {
  for (const bool step : {false, true}) {
    Tensor w = Make({2}, {3, 5}, true);
    Tensor h = reshape(w, {1, 2}) * Make({2, 1}, {1, 10});  // [[3, 5], [30, 50]]
    select(h, 0, 0).mul_(w);                                // [[9, 25], [30, 50]]
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    select(h, 1, 1).zero_();  // [[9, 0], [30, 0]]
    EXPECT_THAT(ValuesOf(h), ElementsAre(9, 0, 30, 0));
    sum(h).backward();
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(6 + 10, 0));
  }
}

TEST(ViewsTest, HistoryOverManySteps) {
  Tensor w = Make({2}, {3, 5}, true);
  Tensor h = w * w, part = narrow(h, 0, 0, 1);
  ASSERT_TRUE(xm::mark_step().ok());
  part.mul_(2);
  ASSERT_TRUE(xm::mark_step().ok());
  part.mul_(3);
  ASSERT_TRUE(xm::mark_step().ok());
  sum(h).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(36, 10));
}

TEST(ViewsTest, BaseGetsTheHistoryOfWhatIsWrittenIntoIt) {
  Tensor buffer = Make({2, 2}, {1, 1, 1, 1}), w = Make({2}, {3, 5}, true);
  Tensor row = select(buffer, 0, 1), other = select(buffer, 0, 0);
  EXPECT_FALSE(buffer.requires_grad());
  row.copy_(w * w);
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_TRUE(row.requires_grad());
  sum(buffer * buffer).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4 * 27, 4 * 125));
  EXPECT_THAT(ValuesOf(other), ElementsAre(1, 1));
}

TEST(ViewsTest, IndicesThatSelectEverythingMakeAView) {
  for (const Indices& all : {Indices{Ellipsis}, Indices{Slice{}}, Indices{}}) {
    Tensor w = Make({2}, {1, 2}, true);
    sum(w).backward();
    Tensor view = index(w, all);
    EXPECT_NE(view.impl(), w.impl());
    EXPECT_FALSE(view.is_leaf());
    EXPECT_FALSE(view.grad().defined()) << "the gradient is the leaf's";
    {
      const no_grad guard;
      view.mul_(3);
    }
    EXPECT_THAT(ValuesOf(w), ElementsAre(3, 6));
    sum(view * view).backward();
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(7, 13));
  }
}

TEST(ViewsTest, DetachSharesMemory) {
  Tensor w = Make({2}, {3, 5}, true);
  Tensor h = w * 2, data = h.detach();
  data.fill_(7);
  EXPECT_THAT(ValuesOf(h), ElementsAre(7, 7));
  sum(h * h).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(28, 28)) << "the history is that of w * 2";
}

TEST(ViewsTest, IntegerAndBoolViews) {
  Tensor counts = tensor(Array::Of<int32_t>({3}, {1, 2, 3}), test::TestDevice());
  narrow(counts, 0, 1, 1).add_(5);
  const auto values = counts.cpu();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(values->values<int32_t>(), ElementsAre(1, 7, 3));
  counts.add_(Make({3}, {1, 1, 1}));
  EXPECT_THAT(ErrorOf(counts), HasSubstr("can't be cast"));
  counts.div_(counts);
  EXPECT_THAT(ErrorOf(counts), HasSubstr("can't be cast"));
}

TEST(ViewsTest, ResultMustFit) {
  Tensor x = Make({2}, {1, 2});
  x.add_(Make({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(ErrorOf(x), HasSubstr("the result f32[3,2] does not fit into the tensor"));
  x.copy_(Make({3}, {1, 2, 3}));
  EXPECT_THAT(ErrorOf(x), HasSubstr("copy_"));
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2));
}

TEST(ViewsTest, ZeroSizedViews) {
  Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor none = narrow(x, 1, 1, 0);
  EXPECT_EQ(none.numel(), 0);
  none.add_(1);
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(ValuesOf(none).empty());
}

}  // namespace penstock::lazy::views_test
