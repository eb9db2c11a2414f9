import { serveController } from 'levelhook/function/node';
import { webCheck } from './web-check.ts';

await serveController(webCheck);
