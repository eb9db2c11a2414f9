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

const isText = ({ type, callee }) =>
  type === 'CallExpression' && callee.object?.name === 'JSON' && callee.property?.name === 'stringify';

const equalityByText = {
  create: (context) => ({
    BinaryExpression(node) {
      if (!/^[!=]==?$/.test(node.operator) || !isText(node.left) || !isText(node.right)) return;
      context.report({ node, message: 'Use `equal` of the SDK, which ignores the order of keys.' });
    },
  }),
};

export default {
  meta: { name: 'levelhook' },
  rules: { 'reasoned-disable': reasonedDisable, 'equality-by-text': equalityByText },
};
