import { serveController } from 'levelhook/function/node';
import { site } from './site.ts';

await serveController(site);
