import { serveController } from 'levelhook/function/node';
import { nodeControllers } from './controllers.ts';
import { settingsOf } from './settings.ts';

await serveController(nodeControllers(settingsOf(process.env)));
