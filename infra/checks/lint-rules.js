/** Our own lint rules, loaded by oxlint as a plugin named `levelhook`. */
const DIRECTIVE = /^\s*(?:eslint|oxlint)-disable/;
const REASON = /\s--\s+\S/;

const reasonedDisable = {
  create: (context) => ({
    Program() {
      for (const comment of context.sourceCode.getAllComments()) {
        if (!DIRECTIVE.test(comment.value) || REASON.test(comment.value)) continue;
        context.report({
          node: comment,
          message: 'Say why, on the same line: `oxlint-disable-next-line rule -- reason`.',
        });
      }
    },
  }),
};

export default {
  meta: { name: 'levelhook' },
  rules: { 'reasoned-disable': reasonedDisable },
};
