// Owns the list of commands: one function in one file each, which returns the exit code.
#pragma once

#include "cli/arguments.hpp"
#include "cli/terminal.hpp"

namespace prime::cli {

int run_command(const UpArguments& arguments, Terminal& terminal);
int run_command(const JoinArguments& arguments, Terminal& terminal);
int run_command(const StandbyArguments& arguments, Terminal& terminal);
int run_command(const DoctorArguments& arguments, Terminal& terminal);
int run_command(const LsArguments& arguments, Terminal& terminal);
int run_command(const StatusArguments& arguments, Terminal& terminal);
int run_command(const AttachArguments& arguments, Terminal& terminal);
int run_command(const InviteArguments& arguments, Terminal& terminal);
int run_command(const LogsArguments& arguments, Terminal& terminal);
int run_command(const LeaveArguments& arguments, Terminal& terminal);
int run_command(const PauseArguments& arguments, Terminal& terminal);
int run_command(const ResumeArguments& arguments, Terminal& terminal);
int run_command(const DownArguments& arguments, Terminal& terminal);
int run_command(const RemoveArguments& arguments, Terminal& terminal);
int run_command(const ValidateArguments& arguments, Terminal& terminal);
int run_command(const PlanArguments& arguments, Terminal& terminal);
int run_command(const VersionArguments& arguments, Terminal& terminal);
int run_command(const ExplainArguments& arguments, Terminal& terminal);
int run_command(const SchemaArguments& arguments, Terminal& terminal);
int run_command(const CompletionsArguments& arguments, Terminal& terminal);
int run_command(const ManArguments& arguments, Terminal& terminal);
int run_command(const CompleteArguments& arguments, Terminal& terminal);
int run_command(const BenchArguments& arguments, Terminal& terminal);
int run_command(const SimulateArguments& arguments, Terminal& terminal);
int run_command(const DataArguments& arguments, Terminal& terminal);
int run_command(const CommitmentArguments& arguments, Terminal& terminal);
int run_command(const EvalArguments& arguments, Terminal& terminal);
int run_command(const GenerateArguments& arguments, Terminal& terminal);
int run_command(const VerifyArguments& arguments, Terminal& terminal);
int run_command(const ReplayArguments& arguments, Terminal& terminal);
int run_command(const CoordinatorArguments& arguments, Terminal& terminal);
int run_command(const AgentArguments& arguments, Terminal& terminal);

}  // namespace prime::cli
