// zoetrope: a prompt becomes a video with sound.
#include "serve/commands.h"
#include "serve/job.h"

int main(int argc, char** argv) {
  CLI::App app{"zoetrope: a prompt becomes a video with sound"};
  app.set_version_flag("--version", std::string("zoetrope ") + zt::kVersion);
  app.require_subcommand(1);
  const zt::Command commands[] = {zt::generate_command(app), zt::inspect_command(app)};
  try {
    app.parse(zt::command_line(argc, argv));
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  for (const zt::Command& c : commands)
    if (*c.app) return c.run();
  return 2;
}
