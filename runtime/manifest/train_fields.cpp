// Owns the rows of `train`.
#include "runtime/manifest/field_rows.hpp"

namespace prime::manifest {
namespace {

// A value of one alternative; null where another one is chosen.
#define CHOSEN(variant, type, member)                          \
  [](auto& m) {                                                \
    auto* chosen = std::get_if<type>(&m.shared.train.variant); \
    return chosen != nullptr ? &chosen->member : nullptr;      \
  }
#define IS_CHOSEN(variant, type) [](const Manifest& m) { return std::holds_alternative<type>(m.shared.train.variant); }

constexpr Interval WEIGHT_DECAY{.minimum = 0, .maximum = 100};

#define HIGHEST "highest learning rate, which the schedule scales"

void add_adamw(std::vector<Field>& t) {
  t.push_back({"train.optimizer.adamw", "Adam with decoupled weight decay", Section{IS_CHOSEN(optimizer, AdamW)}});
  t.push_back({"train.optimizer.adamw.lr", HIGHEST, Decimal{CHOSEN(optimizer, AdamW, learning_rate), up_to(1000)}});
  t.push_back({"train.optimizer.adamw.betas", "decay of the mean and of the mean square of gradients",
               DecimalPair{CHOSEN(optimizer, AdamW, betas), BELOW_ONE}});
  t.push_back({"train.optimizer.adamw.weight_decay", "decoupled; multiplied by the learning rate",
               Decimal{CHOSEN(optimizer, AdamW, weight_decay), WEIGHT_DECAY}});
  t.push_back(
      {"train.optimizer.adamw.epsilon", "added to the root of the mean square", Decimal{CHOSEN(optimizer, AdamW, epsilon), up_to(1)}});
}

void add_sgd(std::vector<Field>& t) {
  t.push_back({"train.optimizer.sgd", "gradient descent with momentum: one value kept of each parameter, where AdamW keeps two",
               Section{IS_CHOSEN(optimizer, Sgd)}});
  t.push_back({"train.optimizer.sgd.lr", HIGHEST, Decimal{CHOSEN(optimizer, Sgd, learning_rate), up_to(1000)}});
  t.push_back({"train.optimizer.sgd.momentum",
               "decay of the sum of gradients that a step takes; 0: the gradient itself, and nothing is kept",
               Decimal{CHOSEN(optimizer, Sgd, momentum), BELOW_ONE}});
  t.push_back({"train.optimizer.sgd.nesterov", "look ahead: the gradient and the decayed sum; needs `momentum`",
               Flag{CHOSEN(optimizer, Sgd, nesterov)}});
  t.push_back({"train.optimizer.sgd.weight_decay", "that much of each parameter is added to its gradient, once that was clipped",
               Decimal{CHOSEN(optimizer, Sgd, weight_decay), WEIGHT_DECAY}});
}

void add_muon(std::vector<Field>& t) {
  t.push_back(
      {"train.optimizer.muon",
       "of each matrix within blocks the momentum, made orthogonal; the embedding, the output layer and all vectors are AdamW's. With "
       "`sync.algorithm: diloco` this is MuLoCo (arXiv:2505.23725)",
       Section{IS_CHOSEN(optimizer, Muon)}});
  t.push_back({"train.optimizer.muon.lr",
               HIGHEST ", of a matrix that is not higher than wide; others take it times the root of height / width",
               Decimal{CHOSEN(optimizer, Muon, learning_rate), up_to(1000)}});
  t.push_back({"train.optimizer.muon.momentum", "decay of the mean of gradients", Decimal{CHOSEN(optimizer, Muon, momentum), BELOW_ONE}});
  t.push_back({"train.optimizer.muon.nesterov", "look ahead: the gradient and the decayed mean", Flag{CHOSEN(optimizer, Muon, nesterov)}});
  t.push_back({"train.optimizer.muon.weight_decay", "decoupled; multiplied by the learning rate",
               Decimal{CHOSEN(optimizer, Muon, weight_decay), WEIGHT_DECAY}});
  t.push_back({"train.optimizer.muon.iterations",
               "steps of Newton and Schulz towards an orthogonal matrix: in bf16 on a GPU, in f32 on a processor",
               Integer{CHOSEN(optimizer, Muon, iterations), 1, 99}});
  t.push_back({"train.optimizer.muon.adamw", "of all that is no matrix within a block", Section{IS_CHOSEN(optimizer, Muon)}});
  t.push_back({"train.optimizer.muon.adamw.lr", HIGHEST, Decimal{CHOSEN(optimizer, Muon, rest.learning_rate), up_to(1000)}});
  t.push_back({"train.optimizer.muon.adamw.betas", "decay of the mean and of the mean square of gradients",
               DecimalPair{CHOSEN(optimizer, Muon, rest.betas), BELOW_ONE}});
  t.push_back({"train.optimizer.muon.adamw.weight_decay", "decoupled; multiplied by the learning rate",
               Decimal{CHOSEN(optimizer, Muon, rest.weight_decay), WEIGHT_DECAY}});
  t.push_back({"train.optimizer.muon.adamw.epsilon", "added to the root of the mean square",
               Decimal{CHOSEN(optimizer, Muon, rest.epsilon), up_to(1)}});
}

#define WARMUP "inner steps of linear warm-up"
#define FLOOR "fraction of the learning rate that is left at the end"

void add_schedule(std::vector<Field>& t) {
  t.push_back({"train.schedule", "learning rate over the run's inner steps",
               Alternative{{"cosine", "constant", "linear", "wsd"},
                           [](const Manifest& m) { return m.shared.train.schedule.index(); },
                           [](Manifest& m, std::size_t index) {
                             static const Schedule ALL[] = {Cosine{}, Constant{}, Linear{}, Wsd{}};
                             m.shared.train.schedule = ALL[index];
                           }}});
  t.push_back({"train.schedule.cosine", "linear warm-up, then half a cosine down to `floor` at the last inner step",
               Section{IS_CHOSEN(schedule, Cosine)}});
  t.push_back({"train.schedule.cosine.warmup", WARMUP, Integer{CHOSEN(schedule, Cosine, warmup), 0, MANY}});
  t.push_back({"train.schedule.cosine.floor", FLOOR, Decimal{CHOSEN(schedule, Cosine, floor), FRACTION}});
  t.push_back({"train.schedule.constant", "always the whole learning rate", Section{IS_CHOSEN(schedule, Constant)}});
  t.push_back({"train.schedule.linear", "linear warm-up, then a line down to `floor` at the last inner step",
               Section{IS_CHOSEN(schedule, Linear)}});
  t.push_back({"train.schedule.linear.warmup", WARMUP, Integer{CHOSEN(schedule, Linear, warmup), 0, MANY}});
  t.push_back({"train.schedule.linear.floor", FLOOR, Decimal{CHOSEN(schedule, Linear, floor), FRACTION}});
  t.push_back(
      {"train.schedule.wsd",
       "linear warm-up, then the whole learning rate, and at the end less: what is taken away grows with the root of the steps since, "
       "down to `floor` at the last inner step",
       Section{IS_CHOSEN(schedule, Wsd)}});
  t.push_back({"train.schedule.wsd.warmup", WARMUP, Integer{CHOSEN(schedule, Wsd, warmup), 0, MANY}});
  t.push_back({"train.schedule.wsd.decay", "share of the run's inner steps, its last ones, in which it gets less",
               Percentage{CHOSEN(schedule, Wsd, decay_percent), {.minimum = 0, .maximum = 100}}});
  t.push_back({"train.schedule.wsd.floor", FLOOR, Decimal{CHOSEN(schedule, Wsd, floor), FRACTION}});
}

}  // namespace

void add_train(std::vector<Field>& t) {
  t.push_back({"train", "inner training", Section{}});
  t.push_back({"train.batch", "samples in one inner step of one peer", Integer{AT(shared.train.batch), 1, 1U << 20}});
  t.push_back({"train.outer_steps", "outer steps of the whole run", Integer{AT(shared.train.outer_steps), 1, MANY}});
  t.push_back({"train.optimizer", "inner optimizer",
               Alternative{{"adamw", "sgd", "muon"},
                           [](const Manifest& m) { return m.shared.train.optimizer.index(); },
                           [](Manifest& m, std::size_t index) {
                             static const Optimizer ALL[] = {AdamW{}, Sgd{}, Muon{}};
                             m.shared.train.optimizer = ALL[index];
                           }}});
  add_adamw(t);
  add_sgd(t);
  add_muon(t);
  add_schedule(t);
  t.push_back(
      {"train.precision",
       "of the inner steps: f32, or bf16, where matrix products, attention and what lies between them have 16 bits; parameters, their "
       "gradients, the optimizer and the loss are f32 either way. For GPUs: most CPUs are slower with bf16",
       CHOICE(shared.train.precision, "f32", "bf16")});
  t.push_back({"train.clip_norm", "highest L2 norm of a gradient", Decimal{AT(shared.train.clip_norm), up_to(1e9)}});
  t.push_back({"train.z_loss",
               "weight of the mean of log²(Z) beside the loss, where Z is the sum of the exponentials of a token's logits: keeps them from "
               "drifting "
               "(PaLM: 1e-4); the loss that is reported is without it",
               Decimal{AT(shared.train.z_loss), FRACTION}});
  t.push_back({"train.seed", "of the initial parameters", Integer{AT(shared.train.seed), 0, ANY}});
  t.push_back({"train.evaluate", "held-out loss on the way", Section{}});
  t.push_back({.path = "train.evaluate.every",
               .meaning = "outer steps between two evaluations; 0: only at the end",
               .type = Integer{AT(shared.train.evaluate.every), 0, MANY},
               .derived = "10; 0 with `eager`, `streaming` and `decoupled`, where no trainer holds the shared state on the way",
               .derive = [](Manifest& m) {
                 const auto algorithm = m.shared.sync.algorithm;
                 m.shared.train.evaluate.every = algorithm == Algorithm::Diloco || algorithm == Algorithm::Delayed ? 10 : 0;
               }});
  t.push_back({"train.evaluate.limit", "held-out bytes of one on the way; the last takes `data.held_out_limit`",
               ByteCount{AT(shared.train.evaluate.limit_bytes), 2, 1024 * GIB}});
  t.push_back({"train.evaluate.time_limit",
               "of the last one, which begins when the final state is saved; then the run ends, and says what was not evaluated",
               TimeSpan{AT(shared.train.evaluate.time_limit), 0ms, 24 * HOUR}});
}

}  // namespace prime::manifest
