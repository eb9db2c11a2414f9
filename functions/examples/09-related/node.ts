import { serveController } from 'levelhook/function/node';
import { team } from './team.ts';

await serveController(team);
