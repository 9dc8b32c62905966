// Owns the talk with prime-inference, which runs models: one job, and events until it ends.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "cli/terminal.hpp"
#include "messages/result.hpp"

namespace prime::cli {

/// Starts it beside primectl and hears `job` through. `progress` becomes lines of progress, `error` this function's failure, and `device`
/// a line where the job says `auto`; all other events are the caller's: `prompts` {prompts: of texts their tokens}, `model` {digest,
/// tokenizer}, `sequence` {index, prompt, tokens, proofs, text?}, `assessed` {index, nats, tokens, state}, `failed` {index, name, detail},
/// `verdict` {index, segments, other_choices, first_other, reason}, `round` (bench), `done` {seconds, proving_seconds}. False ends the
/// program, which is no failure. ProcessFailed: it cannot be started (a build without libtorch has none), or ended without saying why.
Result<void> run_inference(const nlohmann::json& job, Terminal& terminal, const char* verb,
                           const std::function<bool(const nlohmann::json&)>& hear);

}  // namespace prime::cli
