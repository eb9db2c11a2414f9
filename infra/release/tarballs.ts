/** The files that `npm pack` makes of the packages of this tree, by the package. */
export function tarballsOf(version: string): Readonly<Record<string, string>> {
  return {
    levelhook: `levelhook-${version}.tgz`,
    '@levelhook/function': `levelhook-function-${version}.tgz`,
    'create-levelhook': `create-levelhook-${version}.tgz`,
  };
}
