#pragma once
// A model folder made of another: the components that are written anew, the rest as it is.
#include <atomic>
#include <set>
#include <string>

namespace zt {

class NewModelFolder {
 public:
  // Begins a hidden folder beside `out`. Errors (request): `out` exists, lies in the model, has no parent or one that cannot be written.
  NewModelFolder(const std::string& model, const std::string& out);
  ~NewModelFolder();                                   // nothing is left unless commit() was reached
  NewModelFolder(const NewModelFolder&) = delete;
  NewModelFolder& operator=(const NewModelFolder&) = delete;

  // Everything of the model but hidden files and the weights of the components in `rewritten`. Large files become hard links where the
  // disk allows, links are followed. Errors (request): unreadable, unwritable, disk full, folders nested too deep.
  void copy_rest(const std::set<std::string>& rewritten, const std::atomic<bool>& cancel);
  std::string component(const std::string& name);      // folder to write a component into
  void commit();

 private:
  std::string model_, out_, part_;
};

}  // namespace zt
