// Random programs of a training loop's operations: mark_steps and reads at any place change nothing.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "penstock/lazy/autograd.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::random_programs_test {

// Runs a random program: the operations depend on `seed` only, what interrupts them on
// `interruptions` (0: nothing does).
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, uint64_t interruptions) : random_(seed), other_(interruptions) {
    interrupts_ = interruptions != 0;
    for (int i = 0; i < 3; ++i) leaves_.push_back(NewTensor(true));
    for (int i = 0; i < 2; ++i) tensors_.push_back(NewTensor(false));
  }

  // The values of all tensors and gradients at the end.
  std::vector<std::vector<float>> Run(int operations) {
    for (int i = 0; i < operations; ++i) {
      Operation();
      if (interrupts_) Interrupt();
    }
    std::vector<std::vector<float>> values;
    for (const Tensor& leaf : leaves_) {
      values.push_back(test::ValuesOf(leaf));
      if (leaf.grad().defined()) values.push_back(test::ValuesOf(leaf.grad()));
    }
    for (const Tensor& x : tensors_) values.push_back(test::ValuesOf(x));
    return values;
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  Tensor NewTensor(bool leaf) {
    std::vector<float> values;
    for (int i = 0; i < 6; ++i) values.push_back(static_cast<float>(Pick(17) - 8) / 8);
    return test::Make({2, 3}, values, leaf);
  }

  Tensor Any() {
    const int i = Pick(static_cast<int>(leaves_.size() + tensors_.size()));
    const auto leaves = static_cast<int>(leaves_.size());
    return i < leaves ? leaves_[i] : tensors_[i - leaves];
  }

  // A [2,3] tensor or a view of one, for in-place operations.
  Tensor View(const Tensor& x) {
    switch (Pick(5)) {
      case 0:
        return select(x, 0, Pick(2));
      case 1:
        return narrow(x, 1, Pick(2), 2);
      case 2:
        return slice(transpose(x, 0, 1), 0, Pick(2), {}, 2);
      case 3:
        return narrow(reshape(x, {6}), 0, Pick(3), 3);
      default:
        return x;
    }
  }

  void InPlace(Tensor target) {
    switch (Pick(4)) {
      case 0:
        target.mul_(0.5);
        break;
      case 1:
        target.add_(tanh(target));
        break;
      case 2:
        target.copy_(sin(target));
        break;
      default:
        target.fill_(0.25 * Pick(4));
    }
  }

  void Operation() {
    switch (Pick(12)) {
      case 0:
        tensors_.push_back(tanh(Any() * Any()));
        break;
      case 1:
        tensors_.push_back(Any() + Any() * 0.5);
        break;
      case 2:
        tensors_.push_back(tanh(matmul(matmul(Any(), t(Any())), Any())));
        break;
      case 3:
        tensors_.push_back(clone(Any()));
        break;
      case 4:
        tensors_.push_back(reshape(t(Any()), {2, 3}));  // a view
        break;
      case 5:
        tensors_.push_back(Any().detach());
        break;
      case 6:
      case 7: {
        Tensor x = tensors_[Pick(static_cast<int>(tensors_.size()))];
        if (!OfLeaf(x)) InPlace(View(x));
        break;
      }
      case 8: {
        const Tensor x = Any();
        if (x.requires_grad()) sum(x * x).backward(Tensor(), /*retain_graph=*/true);
        break;
      }
      case 9: {
        const no_grad scope;
        InPlace(View(leaves_[Pick(static_cast<int>(leaves_.size()))]));
        break;
      }
      case 10: {
        const no_grad scope;
        Tensor& leaf = leaves_[Pick(static_cast<int>(leaves_.size()))];
        if (leaf.grad().defined()) leaf.sub_(tanh(leaf.grad()), 0.125);
        break;
      }
      default:
        if (tensors_.size() > 4) {
          tensors_.erase(tensors_.begin() + Pick(static_cast<int>(tensors_.size())));
        } else if (Pick(2) == 0) {
          leaves_[Pick(static_cast<int>(leaves_.size()))].set_grad(Tensor());
        }
    }
  }

  // Whether an in-place operation on the tensor is an error.
  static bool OfLeaf(const Tensor& x) { return x.requires_grad() && IsViewOfLeaf(*x.impl()); }
  static bool IsViewOfLeaf(const TensorImpl& impl);

  void Interrupt() {
    switch (other_() % 6) {
      case 0:
        EXPECT_TRUE(xm::mark_step().ok());
        break;
      case 1:
        test::ValuesOf(tensors_[other_() % tensors_.size()]);
        break;
      case 2:
        test::ValuesOf(leaves_[other_() % leaves_.size()]);
        break;
      default:
        break;
    }
  }

  std::mt19937_64 random_, other_;
  bool interrupts_;
  Tensors leaves_, tensors_;
};

bool RandomProgram::IsViewOfLeaf(const TensorImpl& impl) {
  for (const TensorImpl* at = &impl; at != nullptr; at = at->parent.get()) {
    if (at->leaf_requires_grad) return true;
    if (at->detached) return false;
  }
  return false;
}

TEST(RandomProgramsTest, InterruptionsChangeNothing) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto want = RandomProgram(seed, 0).Run(30);
    for (uint64_t interruptions = 1; interruptions <= 2; ++interruptions) {
      const auto got = RandomProgram(seed, seed * 100 + interruptions).Run(30);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(want[i].size(), got[i].size());
        for (size_t k = 0; k < want[i].size(); ++k) {
          ASSERT_NEAR(want[i][k], got[i][k], 1e-4 * std::max(1.f, std::abs(want[i][k])))
              << "seed " << seed << ", interruptions " << interruptions << ", value " << i;
        }
      }
    }
  }
}

}  // namespace penstock::lazy::random_programs_test
