import { serveController } from 'levelhook/function/node';
import { route } from './route.ts';

await serveController(route);
