import { type Declaration, type ModuleItem, parseFileSync } from '@swc/core';

/** The names, of values and of types, that a TypeScript or declaration file exports, in alphabetical order. */
export function exportedNames(path: string): string[] {
  const { body } = parseFileSync(path, { syntax: 'typescript' });
  return body.flatMap((item) => namesOf(item, path)).toSorted();
}

/** Of these names those that the file declares itself, so none that it exports from another module. */
export function declaredExports(path: string): string[] {
  const { body } = parseFileSync(path, { syntax: 'typescript' });
  return body.flatMap((item) => (item.type === 'ExportDeclaration' ? declaredNames(item.declaration, path) : []));
}

function namesOf(item: ModuleItem, path: string): string[] {
  switch (item.type) {
    case 'ExportNamedDeclaration':
      return item.specifiers.map((specifier) => {
        if (specifier.type !== 'ExportSpecifier') throw new Error(`${path}: name each export (${specifier.type})`);
        return (specifier.exported ?? specifier.orig).value;
      });
    case 'ExportDeclaration':
      return declaredNames(item.declaration, path);
    case 'ExportAllDeclaration':
      throw new Error(`${path}: the front door is chosen by hand; name each export instead of \`export *\``);
    default:
      return [];
  }
}

function declaredNames(declaration: Declaration, path: string): string[] {
  switch (declaration.type) {
    case 'FunctionDeclaration':
    case 'ClassDeclaration':
      return [declaration.identifier.value];
    case 'TsInterfaceDeclaration':
    case 'TsTypeAliasDeclaration':
    case 'TsEnumDeclaration':
      return [declaration.id.value];
    case 'VariableDeclaration':
      return declaration.declarations.map(({ id }) => {
        if (id.type !== 'Identifier') throw new Error(`${path}: export names, not patterns`);
        return id.value;
      });
    default:
      throw new Error(`${path}: cannot name an exported ${declaration.type}`);
  }
}
