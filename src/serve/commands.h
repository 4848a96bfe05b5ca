#pragma once
// The subcommands of the program. Each adds itself to the parser and, when chosen, returns an exit code.
#include <CLI/CLI.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace zt {

struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command generate_command(CLI::App& root);
Command inspect_command(CLI::App& root);
Command serve_command(CLI::App& root);
Command live_command(CLI::App& root);
Command key_command(CLI::App& root);
Command decode_medium_command(CLI::App& root);   // hidden: what media_apart starts
Command worker_command(CLI::App& root);
Command jobs_command(CLI::App& root);
Command compare_command(CLI::App& root);
Command quantize_command(CLI::App& root);
Command convert_command(CLI::App& root);

// The arguments as CLI11 parses them (the last first). "--key=" becomes an empty value; CLI11 2.1 would take the next argument for it.
std::vector<std::string> command_line(int argc, char** argv);

// True once Ctrl-C or SIGTERM came, from this call on; the second one ends the program at once.
const std::atomic<bool>& catch_interrupts();

// Runs `body`; an Error becomes "zoetrope: message" on stderr and its exit code, Cancelled 130.
int report_errors(const std::function<int()>& body);

}  // namespace zt
