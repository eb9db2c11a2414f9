/**
 * Gives the version of package.json to all other files that name it, and keeps the contract's documents as released.
 * `npm run new-version` runs it after `changeset version`, in the folder of the repository.
 */
import { followVersion, releaseContract } from './versions.ts';

followVersion(process.cwd());
releaseContract(process.cwd());
