import { serveController } from 'levelhook/function/node';
import { endpoints } from './controller.ts';

await serveController(endpoints);
