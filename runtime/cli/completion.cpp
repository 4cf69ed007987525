// Writes the completion scripts for bash, zsh and fish from the table of commands.
#include "runtime/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/error.h"

namespace runtime::cli {

namespace {

using Commands = std::vector<CompletedCommand>;

std::string last_word(const std::string& path) { return path.substr(path.rfind(' ') + 1); }

// Whether `path` is a command of the command `of`.
bool is_below(const std::string& path, const std::string& of) {
  const size_t space = path.rfind(' ');
  return !path.empty() && of == (space == std::string::npos ? "" : path.substr(0, space));
}

std::vector<const CompletedCommand*> below(const Commands& all, const std::string& path) {
  std::vector<const CompletedCommand*> found;
  for (const CompletedCommand& command : all) {
    if (is_below(command.path, path)) found.push_back(&command);
  }
  return found;
}

// In single quotes, for a shell. `escaped` is what the shell has for a single quote.
std::string quoted(const std::string& text, const std::string& escaped) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? escaped : std::string(1, c);
  return result + "'";
}

std::string in_bash(const std::string& text) { return quoted(text, "'\\''"); }
std::string in_fish(const std::string& text) { return quoted(text, "\\'"); }

// The first clause; a menu has no place for more.
std::string in_short(const std::string& help) {
  return help.substr(0, std::min({help.find(". "), help.find(';'), help.find('\n')}));
}

// Pattern of a shell's `case` for every command, after those before it: "plugins list".
std::string path_patterns(const Commands& all) {
  std::string patterns;
  for (const CompletedCommand& command : all) {
    if (command.path.empty()) continue;
    const bool top = command.path.find(' ') == std::string::npos;
    patterns += (patterns.empty() ? "" : "|") + in_bash((top ? " " : "") + command.path);
  }
  return patterns;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// Whether more text follows a chosen value at once: "training.epochs=".
bool is_continued(const CompletedOption& option) {
  return !option.choices.empty() && option.choices[0].ends_with('=');
}

// The `case` with the values of options, which bash and zsh share: what `offer` says for those with
// choices, `files` for others.
std::string value_cases(const Commands& all,
                        const std::function<std::string(const CompletedOption&)>& offer,
                        const std::string& files) {
  std::string cases;
  for (const CompletedCommand& command : all) {
    for (const CompletedOption& option : command.options) {
      if (!option.takes_value) continue;
      std::string patterns;
      for (const std::string& name : option.names)
        patterns += (patterns.empty() ? "" : "|") + in_bash(command.path + ":" + name);
      cases += fmt::format("    {}) {}; return ;;\n", patterns,
                           option.choices.empty() ? files : offer(option));
    }
  }
  return cases;
}

std::string bash_offer(const CompletedOption& option) {
  if (is_continued(option))
    return "_runtime_key " + in_bash(joined(option.choices)) + " " + in_bash(joined(option.values));
  return "COMPREPLY=($(compgen -W " + in_bash(joined(option.choices)) + " -- \"$cur\"))";
}

std::string zsh_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + in_bash(word);
  return text;
}

std::string zsh_offer(const CompletedOption& option) {
  if (is_continued(option))
    return "if [[ $PREFIX == *=* ]]; then compadd --" + zsh_words(option.values) +
           "; else compadd -S '' --" + zsh_words(option.choices) + "; fi";
  return "compadd --" + zsh_words(option.choices);
}

// The names of a command's own commands or the choices of its argument, then those of its options.
std::string words_of(const Commands& all, const CompletedCommand& command) {
  std::string words;
  for (const CompletedCommand* sub : below(all, command.path)) words += last_word(sub->path) + " ";
  for (const std::string& choice : command.arguments) words += choice + " ";
  return words;
}

std::string options_of(const CompletedCommand& command) {
  std::string words;
  for (const CompletedOption& option : command.options) {
    for (const std::string& name : option.names) words += name + " ";
  }
  return words;
}

// bash cuts a word at "=": the words of `key=value` are three, and only the last is replaced.
constexpr const char* kBashKey =
    "# Completes the command line of runtime in bash; printed by `runtime completion bash`.\n"
    "_runtime_key() {\n"
    "  local list=$1\n"
    "  if [[ $head$cur == *=* ]]; then list=$2; else compopt -o nospace; fi\n"
    "  COMPREPLY=($(compgen -W \"$list\" -- \"$head$cur\"))\n"
    "  COMPREPLY=(\"${COMPREPLY[@]#\"$head\"}\")\n"
    "}\n";

std::string bash_script(const Commands& all) {
  std::string words;
  for (const CompletedCommand& command : all)
    words += fmt::format("    {}) words={} options={} ;;\n", in_bash(command.path),
                         in_bash(words_of(all, command)), in_bash(options_of(command)));
  return std::string(kBashKey) +
         "_runtime() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} head=\n"
         "  if [[ $cur == = ]]; then head=$prev= prev=${COMP_WORDS[COMP_CWORD-2]} cur=\n"
         "  elif [[ $prev == = ]]; then head=${COMP_WORDS[COMP_CWORD-2]}= "
         "prev=${COMP_WORDS[COMP_CWORD-3]}; fi\n"
         "  if [[ $head == -* ]]; then prev=${head%=} head=; fi\n"
         "  local command= words= options= i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"$command ${COMP_WORDS[i]}\" in\n"
         "      " +
         path_patterns(all) +
         ") command=\"${command:+$command }${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  COMPREPLY=()\n"
         "  case \"$command:$prev\" in\n" +
         value_cases(all, bash_offer, ":") +
         "  esac\n"
         "  case \"$command\" in\n" +
         words +
         "  esac\n"
         "  [[ $cur == -* ]] && words=$options\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -o bashdefault -o default -F _runtime runtime\n";
}

// "name:help" of zsh's _describe, in which a colon in a name or a text is escaped.
std::string described(const std::string& name, const std::string& help) {
  std::string text;
  for (const char c : in_short(help)) text += c == ':' ? "\\:" : std::string(1, c);
  return in_bash(name + ":" + text);
}

std::string zsh_items(const Commands& all, const CompletedCommand& command) {
  std::string words, options;
  for (const CompletedCommand* sub : below(all, command.path))
    words += " " + described(last_word(sub->path), sub->help);
  for (const std::string& choice : command.arguments) words += " " + in_bash(choice);
  for (const CompletedOption& option : command.options) {
    for (const std::string& name : option.names) options += " " + described(name, option.help);
  }
  return fmt::format("    {}) found=({} ) options=({} ) ;;\n", in_bash(command.path), words,
                     options);
}

std::string zsh_script(const Commands& all) {
  std::string items;
  for (const CompletedCommand& command : all) items += zsh_items(all, command);
  return "#compdef runtime\n"
         "# Completes the command line of runtime in zsh; printed by `runtime completion zsh`.\n"
         "_runtime() {\n"
         "  local command= i\n"
         "  local -a found options\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    case \"$command $words[i]\" in\n"
         "      " +
         path_patterns(all) +
         ") command=\"${command:+$command }$words[i]\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$command:$words[CURRENT-1]\" in\n" +
         value_cases(all, zsh_offer, "_files") + "  esac\n" + "  case \"$command\" in\n" + items +
         "  esac\n"
         "  if [[ $PREFIX == -* ]]; then\n"
         "    _describe -o option options\n"
         "  elif (( $#found )); then\n"
         "    _describe command found\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [[ $funcstack[1] == _runtime ]]; then _runtime \"$@\"; else compdef _runtime runtime; "
         "fi\n";
}

std::string fish_lines(const Commands& all, const CompletedCommand& command) {
  const std::string begin =
      "complete -c runtime -n " + in_fish("test (__runtime_command) = \"" + command.path + "\"");
  std::string lines;
  for (const CompletedCommand* sub : below(all, command.path))
    lines += fmt::format("{} -f -a {} -d {}\n", begin, last_word(sub->path),
                         in_fish(in_short(sub->help)));
  if (!command.arguments.empty())
    lines += fmt::format("{} -f -a {}\n", begin, in_fish(joined(command.arguments)));
  for (const CompletedOption& option : command.options) {
    std::string names, value = option.takes_value ? " -r" : "";
    for (const std::string& name : option.names)
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.choices.empty()) value = " -x -a " + in_fish(joined(option.choices));
    lines += begin + names + value + " -d " + in_fish(in_short(option.help)) + "\n";
    if (!option.values.empty()) {
      lines += "complete -c runtime -n " +
               in_fish("test (__runtime_command) = \"" + command.path +
                       "\"; and string match -q \"*=*\" -- (commandline -ct)") +
               names + " -x -a " + in_fish(joined(option.values)) + "\n";
    }
  }
  return lines;
}

std::string fish_script(const Commands& all) {
  std::string paths, lines;
  for (const CompletedCommand& command : all) {
    const bool top = command.path.find(' ') == std::string::npos;
    if (!command.path.empty()) paths += " " + in_fish((top ? " " : "") + command.path);
    lines += fish_lines(all, command);
  }
  return "# Completes the command line of runtime in fish; printed by `runtime completion fish`.\n"
         "function __runtime_command\n"
         "  set -l command ''\n"
         "  for word in (commandline -opc)[2..-1]\n"
         "    if contains -- \"$command $word\"" +
         paths +
         "\n"
         "      set command (string trim -- \"$command $word\")\n"
         "    end\n"
         "  end\n"
         "  echo $command\n"
         "end\n" +
         lines;
}

}  // namespace

std::string completion_script(const std::string& shell, const Commands& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  throw ConfigurationError("completion: got \"" + shell + "\", expected bash, zsh or fish");
}

}  // namespace runtime::cli
