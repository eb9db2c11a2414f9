/**
 * Makes `instanceof` hold for objects of another copy of the class, too: `@levelhook/function` has copies of what
 * `levelhook/testing` has, and an error of the one is caught by code of the other. Not for subclasses of an author,
 * which only their own objects are instances of.
 */
export function acrossCopies(type: abstract new (...args: never) => object, name: string): void {
  const brand = Symbol.for(`levelhook.${name}`);
  Object.defineProperty(type.prototype, brand, { value: true });
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      if (Function.prototype[Symbol.hasInstance].call(this as () => void, value)) return true;
      return this === type && typeof value === 'object' && value !== null && brand in value;
    },
  });
}
