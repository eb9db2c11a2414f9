import {
  type ClassMember,
  type Declaration,
  parseFileSync,
  type TsInterfaceDeclaration,
  type TsType,
  type TsTypeElement,
} from '@swc/core';

/** An interface, or an alias of an object type: the fields that it declares itself, and what it extends. */
interface Shape {
  readonly path: string;
  readonly own: readonly string[];
  readonly parents: readonly Parent[];
}

interface Parent {
  readonly name: string;
  /** Of `Pick` and `Omit`: of which fields. */
  readonly fields?: readonly string[];
  readonly utility?: 'Pick' | 'Omit';
}

/**
 * The fields of each options object: of the interfaces (and aliases of object types) that are called `...Options`, and
 * of the interfaces that a constructor takes. Fields of the interfaces that these extend count, too.
 */
export function optionFields(paths: readonly string[]): Map<string, readonly string[]> {
  const shapes = new Map<string, Shape>();
  const wanted = new Set<string>();
  for (const path of paths) {
    for (const item of parseFileSync(path, { syntax: 'typescript' }).body) {
      const declaration = item.type === 'ExportDeclaration' ? item.declaration : item;
      if (declaration.type === 'ClassDeclaration') for (const name of takenBy(declaration.body)) wanted.add(name);
      const shape = shapeOf(declaration as Declaration, path);
      if (!shape) continue;
      shapes.set(shape.name, shape);
      if (shape.name.endsWith('Options')) wanted.add(shape.name);
    }
  }
  return new Map([...wanted].filter((name) => shapes.has(name)).map((name) => [name, fieldsOf(name, shapes)]));
}

function shapeOf(declaration: Declaration, path: string): (Shape & { name: string }) | undefined {
  if (declaration.type === 'TsInterfaceDeclaration') {
    const parents = declaration.extends.map((each) => parentOf(each, path));
    return { name: declaration.id.value, path, own: namesOf(declaration.body.body), parents };
  }
  if (declaration.type === 'TsTypeAliasDeclaration' && declaration.typeAnnotation.type === 'TsTypeLiteral') {
    return { name: declaration.id.value, path, own: namesOf(declaration.typeAnnotation.members), parents: [] };
  }
  return undefined;
}

function parentOf({ expression, typeArguments }: TsInterfaceDeclaration['extends'][number], path: string): Parent {
  if (expression.type !== 'Identifier') throw new Error(`${path}: cannot tell what an interface extends`);
  const name = expression.value;
  // The fields of a schema: settings, which no code hands on one by one.
  if (name === 'Readonly') return { name, utility: 'Pick', fields: [] };
  if (name !== 'Pick' && name !== 'Omit') return { name };
  const [of, fields] = typeArguments?.params ?? [];
  if (of?.type !== 'TsTypeReference' || of.typeName.type !== 'Identifier' || !fields) {
    throw new Error(`${path}: cannot tell what ${name} is of`);
  }
  return { name: of.typeName.value, utility: name, fields: literalsOf(fields) };
}

function literalsOf(type: TsType): string[] {
  if (type.type === 'TsUnionType') return type.types.flatMap(literalsOf);
  return type.type === 'TsLiteralType' && type.literal.type === 'StringLiteral' ? [type.literal.value] : [];
}

function namesOf(members: readonly TsTypeElement[]): string[] {
  return members.flatMap((member) => ('key' in member && member.key.type === 'Identifier' ? [member.key.value] : []));
}

/** The names of the types of a constructor's parameters. */
function takenBy(members: readonly ClassMember[]): string[] {
  return members.flatMap((member) => {
    if (member.type !== 'Constructor') return [];
    return member.params.flatMap((parameter) => {
      if (parameter.type !== 'Parameter') return [];
      const pattern = parameter.pat.type === 'AssignmentPattern' ? parameter.pat.left : parameter.pat;
      const annotation = 'typeAnnotation' in pattern ? pattern.typeAnnotation : undefined;
      const type = annotation?.type === 'TsTypeAnnotation' ? annotation.typeAnnotation : undefined;
      return type?.type === 'TsTypeReference' && type.typeName.type === 'Identifier' ? [type.typeName.value] : [];
    });
  });
}

function fieldsOf(name: string, shapes: ReadonlyMap<string, Shape>): string[] {
  const shape = shapes.get(name);
  if (!shape) return [];
  const inherited = shape.parents.flatMap(({ name: parent, utility, fields = [] }) => {
    if (utility === 'Pick') return fields;
    if (!shapes.has(parent)) throw new Error(`${shape.path}: ${parent}, which ${name} extends, is not among the files`);
    return fieldsOf(parent, shapes).filter((field) => !fields.includes(field));
  });
  return [...new Set([...inherited, ...shape.own])];
}
