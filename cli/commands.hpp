// Owns the list of commands: one function in one file each, which returns the exit code.
#pragma once

#include "cli/arguments.hpp"

namespace prime::cli {

int run_command(const UpArguments& arguments);
int run_command(const JoinArguments& arguments);
int run_command(const StatusArguments& arguments);
int run_command(const LogsArguments& arguments);
int run_command(const LeaveArguments& arguments);
int run_command(const DownArguments& arguments);
int run_command(const ValidateArguments& arguments);
int run_command(const VersionArguments& arguments);
int run_command(const ExplainArguments& arguments);
int run_command(const BenchArguments& arguments);
int run_command(const CoordinatorArguments& arguments);
int run_command(const AgentArguments& arguments);

}  // namespace prime::cli
