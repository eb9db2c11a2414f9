import { type ClassDeclaration, parseSync } from '@swc/core';

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A call of a function or a constructor, by names. */
interface Call {
  readonly callee: readonly string[];
  readonly arguments: readonly (readonly string[])[];
}

/** Code that a function runs. */
interface Reached {
  readonly code: Node;
  /** The names of each callee, with the class in place of `this`. */
  readonly calls: readonly (readonly string[])[];
}

/** A function: `function`, `Class.method` or `Class.#method`. */
interface Target {
  readonly name: string;
  /** The file that declares it. */
  readonly source: Source;
}

/**
 * How a call names its callee: as a function of the module or a method of an object of its class, as a method of an
 * interface, or by a name that shows neither.
 */
export type CallKind = 'direct' | 'interface' | 'unknown';

/** Fields of a node that declare names or types. A name in them is no use of a value. */
const DECLARING = new Set([
  'typeAnnotation',
  'returnType',
  'typeParameters',
  'typeArguments',
  'params',
  'id',
  'identifier',
  'key',
]);

/**
 * The functions of a TypeScript file, and the calls of each. The parser computes no types: a variable has all types
 * that the file declares for its name.
 */
export class Source {
  /** Functions by `function` or `Class.method`, and fields of classes with all values that the class assigns. */
  readonly #code = new Map<string, Node[]>();
  readonly #names = new Set<string>();
  /** The names in the types of variables, parameters and fields, by the name of these. */
  readonly #types = new Map<string, Set<string>>();
  readonly #interfaces = new Map<string, readonly string[]>();
  /** The names that values have or end in. */
  readonly #mentioned: ReadonlySet<string>;
  readonly #calls: readonly Call[];
  readonly #reachedFrom = new Map<string, readonly Reached[]>();

  constructor(text: string) {
    const { body } = parseSync(text, { syntax: 'typescript' });
    for (const item of body) {
      const declaration = item.type === 'ExportDeclaration' ? item.declaration : item;
      if (declaration.type === 'FunctionDeclaration') this.#add(declaration.identifier.value, declaration);
      if (declaration.type === 'ClassDeclaration') this.#addClass(declaration.identifier.value, declaration);
    }
    for (const node of nodesIn(body)) {
      if (node.type === 'Identifier') this.#names.add(nameOf(node));
      this.#addTypes(node);
    }
    this.#mentioned = new Set(chainsIn(body).map((chain) => chain.at(-1) ?? ''));
    this.#calls = callsIn(body);
  }

  has(name: string): boolean {
    return this.#code.has(name);
  }

  /** How a function calls another, itself or in a function of this file that it calls. Empty: it does not. */
  callsOf(name: string, target: Target): CallKind[] {
    const [owner = '', method] = target.name.split('.');
    const calls = this.#callsEndingIn(name, [method ?? owner]);
    if (method === undefined) return calls.flatMap(({ length }) => (length === 1 ? 'direct' : []));
    const interfaces = target.source.#interfaces.get(owner) ?? [];
    return calls.flatMap((chain): CallKind | [] => {
      const receiver = chain.at(-2) ?? '';
      const types = this.#types.get(receiver);
      if (receiver === owner || types?.has(owner)) return 'direct';
      if (!types) return 'unknown';
      return interfaces.some((each) => types.has(each)) ? 'interface' : [];
    });
  }

  /** Whether a function makes a call by this name. */
  callsBy(name: string, call: string): boolean {
    return this.#callsEndingIn(name, call.split('.')).length > 0;
  }

  /** Whether the file names this function, and its class if it has one, so that it may pass the function on. */
  names(name: string): boolean {
    return name.split('.').every((each, at) => (at === 0 ? this.#names : this.#mentioned).has(each));
  }

  /** Whether the file passes objects of a class on: if to constructors and functions, then to one of this name, too. */
  passes(owner: string, to: string): boolean {
    const isInstance = (name: string): boolean => name === owner || (this.#types.get(name)?.has(owner) ?? false);
    const calls = this.#calls.filter((call) => call.arguments.some((chain) => isInstance(chain.at(-1) ?? '')));
    const receivers = calls.map(({ callee }) => callee).filter(({ length }) => length === 1);
    return calls.length > 0 && (receivers.length === 0 || receivers.some(([name]) => name === to));
  }

  /** Whether a function uses this data, or something of this type. */
  uses(name: string, data: string): boolean {
    const found = this.#reached(name).flatMap(({ code }) => nodesIn(code).map(nameOf));
    return found.some((each) => each === data || this.#types.get(each)?.has(data));
  }

  #callsEndingIn(name: string, suffix: readonly string[]): (readonly string[])[] {
    return this.#reached(name)
      .flatMap(({ calls }) => calls)
      .filter((chain) => suffix.every((each, at) => each === chain.at(at - suffix.length)));
  }

  /** The code of a function and of all functions of the file that it calls. */
  #reached(name: string): readonly Reached[] {
    const known = this.#reachedFrom.get(name);
    if (known) return known;
    const names = new Set([name]);
    const found: Reached[] = [];
    for (const each of names) {
      const owner = each.includes('.') ? each.slice(0, each.indexOf('.')) : '';
      for (const code of this.#code.get(each) ?? []) {
        const calls = callsIn(code).map(({ callee }) => (callee[0] === 'this' ? [owner, ...callee.slice(1)] : callee));
        found.push({ code, calls });
        for (const [first = '', second = ''] of calls) names.add(first === owner ? `${owner}.${second}` : first);
      }
    }
    this.#reachedFrom.set(name, found);
    return found;
  }

  #add(name: string, node: unknown): void {
    if (isNode(node)) this.#code.set(name, [...(this.#code.get(name) ?? []), node]);
  }

  #addClass(owner: string, declaration: ClassDeclaration): void {
    this.#interfaces.set(owner, nodesIn(declaration.implements).map(nameOf));
    for (const member of declaration.body) {
      if ('key' in member) this.#add(`${owner}.${nameOf(member.key)}`, member);
    }
    for (const { type, left, right } of nodesIn(declaration.body)) {
      const [first, name, ...others] = type === 'AssignmentExpression' ? chainOf(left) : [];
      if (first === 'this' && name !== undefined && others.length === 0) this.#add(`${owner}.${name}`, right);
    }
  }

  #addTypes(node: Node): void {
    const { type, typeAnnotation, value, init, left, right } = node;
    const name = type === 'Identifier' ? nameOf(node) : nameOf(node['key'] ?? node['id']);
    this.#addType(name, typeAnnotation);
    for (const each of [value, init])
      if (isNode(each) && each.type === 'NewExpression') this.#addType(name, each['callee']);
    if (type !== 'AssignmentExpression' || !isNode(right) || right.type !== 'NewExpression') return;
    this.#addType(chainOf(left).at(-1) ?? '', right['callee']);
  }

  #addType(name: string, type: unknown): void {
    const found = nodesIn(type).map(nameOf).filter(Boolean);
    if (name !== '' && found.length > 0) this.#types.set(name, new Set([...(this.#types.get(name) ?? []), ...found]));
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** A node and all nodes below it. swc puts objects without a type between some nodes. */
function nodesIn(value: unknown): Node[] {
  if (typeof value !== 'object' || value === null) return [];
  const below = Object.values(value).flatMap(nodesIn);
  return isNode(value) ? [value, ...below] : below;
}

/** The name of an identifier, with the # of a private one; '' for another node. */
function nameOf(node: unknown): string {
  if (!isNode(node) || typeof node['value'] !== 'string') return '';
  if (node.type === 'PrivateName') return `#${node['value']}`;
  return node.type === 'Identifier' ? node['value'] : '';
}

/** `this.#a.b(c)?.d` as its names; of another expression none. */
function chainOf(node: unknown): string[] {
  if (!isNode(node)) return [];
  switch (node.type) {
    case 'ThisExpression':
      return ['this'];
    case 'MemberExpression':
      return [...chainOf(node['object']), nameOf(node['property'])];
    case 'OptionalChainingExpression':
      return chainOf(node['base']);
    case 'CallExpression':
      return chainOf(node['callee']);
    default: {
      const name = nameOf(node);
      return name === '' ? [] : [name];
    }
  }
}

/** The chains of names that the values in a node use, whole and in parts. */
function chainsIn(node: unknown): string[][] {
  if (typeof node !== 'object' || node === null) return [];
  if (isNode(node) && node.type === 'Identifier') return [chainOf(node)];
  if (isNode(node) && node.type === 'MemberExpression') {
    const { object, property } = node;
    return [chainOf(node), ...chainsIn(object), ...(nameOf(property) === '' ? chainsIn(property) : [])];
  }
  return Object.entries(node).flatMap(([field, value]) => (DECLARING.has(field) ? [] : chainsIn(value)));
}

function callsIn(code: unknown): Call[] {
  const calls = nodesIn(code).filter(({ type }) => type === 'CallExpression' || type === 'NewExpression');
  return calls.map((call) => ({ callee: chainOf(call['callee']), arguments: chainsIn(call['arguments']) }));
}
