// One plan in a comparison: trains a few steps whenever it is its turn. folded_contestant.h: by ranks of this process;
// served_contestant.h: by workers and parameter servers that are processes.
#pragma once

#include <cstddef>
#include <vector>

#include "insight/compare/comparison.h"
#include "insight/compare/plan_list.h"

namespace trifold {

class Contestant {
 public:
  Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;
  virtual ~Contestant() = default;

  // Trains so many steps from where the last turn ended. The first, in which threads, caches and the loader come to
  // speed, is not timed.
  virtual void take_turn(int steps) = 0;
  // Frees the model's memory until the next turn, where that can be.
  virtual void put_away() {}
  // After the last turn: files are whole, and processes gone.
  virtual void finish() {}
  virtual std::size_t memory_bytes() const { return 0; }  // that put_away() would free

  virtual const ComparedPlan& plan() const = 0;
  virtual double images_per_s(std::size_t turn) const = 0;
  virtual const std::vector<double>& losses() const = 0;  // of every step
  // Of the first step; null: they are not known here.
  virtual const Gradients* gradients() const { return nullptr; }
  virtual void forget_gradients() {}

  // What is known of it besides: of all turns, or of this one.
  virtual void describe(PlanResult& result, std::size_t turn) const = 0;
};

}  // namespace trifold
