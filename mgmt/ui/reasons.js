// The reasons of the API's errors in words. RabbitMQ's API answers with a text in which HTML is
// escaped and names may be Erlang's binaries, or with a list of a word and its details.

const ESCAPED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&"};
const WORDS = {
  invalid_regexp: (pattern, why) => `'${pattern}' is not a valid regular expression: ${why}`,
  no_such_user: (name) => `There is no user '${name}'.`,
  not_integer: (value) => `${value} is not an integer`,
  not_boolean: (value) => `${value} is neither true nor false`,
  not_string: (value) => `${value} is not a text`,
  not_base64: () => "the text is not base64",
};

export function inWords(reason) {
  if (Array.isArray(reason)) {
    const [word, ...details] = reason;
    const shown = details.map(inWords);
    return WORDS[word]?.(...shown) ?? [word, ...shown].map(inWords).join(": ");
  }
  const text = typeof reason === "string" ? reason : JSON.stringify(reason);
  return text.replace(/&(?:lt|gt|quot|amp);/g, (name) => ESCAPED[name])
    .replace(/<<("(?:[^"\\]|\\.)*")>>/g, "$1");
}
