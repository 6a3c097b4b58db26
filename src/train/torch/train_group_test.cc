// SPDX-License-Identifier: Apache-2.0
#include "train/torch/train_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/torch/processes_for_tests.h"
#include "train/train_fixtures.h"

namespace clover {
namespace {

using ::testing::HasSubstr;
using train_testing::run_processes;

TEST(TrainGroup, alone_nothing_changes) {
  TrainGroup group(group_from_environment());
  EXPECT_EQ(group.size(), 1);
  EXPECT_TRUE(group.first());
  EXPECT_EQ(group.share("text"), "text");
  std::vector<double> values = {1, 2};
  group.sum(values);
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
}

TEST(TrainGroup, texts_are_the_first_processs) {
  EXPECT_EQ(run_processes(3,
                          [] {
                            TrainGroup group(group_from_environment());
                            const std::string long_text(9'000'000, 'x');
                            EXPECT_EQ(group.share(group.first() ? "one" : "other"), "one");
                            EXPECT_EQ(group.share(group.first() ? "" : "other"), "");
                            EXPECT_EQ(group.share(group.first() ? long_text : ""), long_text);
                          }),
            0);
}

// Fewer values than processes, as many, and more than one message holds; again and again.
TEST(TrainGroup, sums_are_those_of_all_in_the_order_of_the_ranks) {
  EXPECT_EQ(run_processes(3,
                          [] {
                            TrainGroup group(group_from_environment());
                            for (const size_t size : {0, 1, 2, 3, 1000, 2'000'000}) {
                              std::vector<double> values(size);
                              const auto of = [&](size_t i, int64_t rank) {
                                return static_cast<double>(i) + 0.1 * static_cast<double>(rank);
                              };
                              for (size_t i = 0; i < size; ++i) values[i] = of(i, group.rank());
                              group.sum(values);
                              size_t wrong = 0;
                              for (size_t i = 0; i < size; ++i)
                                wrong += values[i] != of(i, 0) + of(i, 1) + of(i, 2);
                              EXPECT_EQ(wrong, 0u) << size;
                            }
                          }),
            0);
}

TEST(TrainGroup, a_tensor_that_only_some_processes_have_counts_as_zeros) {
  EXPECT_EQ(
      run_processes(
          2,
          [] {
            TrainGroup group(group_from_environment());
            std::vector<at::Tensor> shapes = {at::zeros({2, 2}), at::zeros({3}), at::zeros({1})};
            std::vector<at::Tensor> tensors(3);
            tensors[0] = at::full({2, 2}, 1.5 + static_cast<double>(group.rank()));
            if (!group.first()) tensors[1] = at::full({3}, 4.0);
            group.sum(tensors, shapes);
            EXPECT_TRUE(tensors[0].equal(at::full({2, 2}, 4.0)));
            EXPECT_TRUE(tensors[1].equal(at::full({3}, 4.0)));
            EXPECT_FALSE(tensors[2].defined());
          }),
      0);
}

TEST(TrainGroup, processes_that_do_not_come_are_not_waited_for_for_ever) {
  EXPECT_EQ(
      run_processes(2,
                    [] {
                      GroupAddress address = group_from_environment();
                      address.patience = std::chrono::milliseconds(300);
                      if (address.rank == 1) return;
                      TrainGroup group(address);
                      double value = 1;
                      error_text([&] { group.sum({&value, 1}); }, ErrorCode::kInvalidArgument);
                    }),
      0);
}

// What torchrun sets, and what is said when something is missing.
TEST(TrainGroup, the_environment_is_checked) {
  EXPECT_EQ(run_processes(1,
                          [] {
                            const auto fault = [] {
                              return error_text([] { group_from_environment(); },
                                                ErrorCode::kInvalidArgument);
                            };
                            setenv("WORLD_SIZE", "many", 1);
                            EXPECT_THAT(fault(), HasSubstr("WORLD_SIZE"));
                            setenv("WORLD_SIZE", "2", 1);
                            setenv("RANK", "2", 1);
                            EXPECT_THAT(fault(),
                                        HasSubstr("RANK must be a number from 0 to 1, not '2'"));
                            setenv("RANK", "0", 1);
                            EXPECT_TRUE(group_from_environment().serves);
                            setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
                            setenv("TORCHELASTIC_RESTART_COUNT", "3", 1);
                            EXPECT_FALSE(group_from_environment().serves);
                            EXPECT_EQ(group_from_environment().prefix, "clover/3");
                            unsetenv("MASTER_ADDR");
                            EXPECT_THAT(fault(), HasSubstr("MASTER_ADDR"));
                          }),
            0);
}

}  // namespace
}  // namespace clover
