/**
 * Gives the version of package.json to all other files that name it. `npm run new-version` runs it after
 * `changeset version`, in the folder of the repository.
 */
import { followVersion } from './versions.ts';

followVersion(process.cwd());
