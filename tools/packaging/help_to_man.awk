# Turns the output of a program's --help into sections of a manual page. With part=part the sections are those of a command of a
# command, below its heading. The help has: sentences; "Usage: ..."; headings ("Options:") with lines "  name   text", whose text
# may begin on the next line; examples.

function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\\&" text
  return text
}

function heading(text) {
  in_sentences = 0
  print (part == "" ? ".SH \"" toupper(text) "\"" : ".SS \"" text "\"")
}

# Ends the block of examples, in which lines stay as they are.
function end_of_examples() {
  if (in_examples) print ".fi"
  in_examples = 0
}

/^[Uu]sage: / {
  end_of_examples()
  heading(part == "" ? "Synopsis" : "Usage")
  print roff(substr($0, 8))
  next
}

tolower($0) ~ /^examples?:$/ {
  end_of_examples()
  heading("Examples")
  print ".nf"
  in_examples = 1
  next
}

/^[^ ].*:$/ {
  end_of_examples()
  heading(substr($0, 1, length($0) - 1))
  next
}

in_examples && /^  / {
  print roff(substr($0, 3))
  next
}

# The text of a name that was too long for its column.
/^          / {
  sub(/^ +/, "")
  print roff($0)
  next
}

/^  [^ ]/ {
  end_of_examples()
  name = substr($0, 3)
  text = ""
  if (match(name, /  +/)) {
    text = substr(name, RSTART + RLENGTH)
    name = substr(name, 1, RSTART - 1)
  }
  print ".TP"
  print "\\fB" roff(name) "\\fR"
  if (text != "") print roff(text)
  next
}

/^Exit codes: / {
  end_of_examples()
  heading("Exit status")
  print roff(toupper(substr($0, 13, 1)) substr($0, 14))
  next
}

/^$/ {
  end_of_examples()
  next
}

# Sentences: before "Usage: ..." they say what the command does, behind the options how.
{
  end_of_examples()
  if (!in_sentences) heading(described ? "Details" : "Description")
  in_sentences = described = 1
  print roff($0)
}

END { end_of_examples() }
