/** The main module of the process of `pprofInProcess`. */
import { messageOf } from '../../../core/index.ts';
import { pprofOf, type V8Profile } from './pprof.ts';

export type PprofAnswer = { readonly bytes: Uint8Array } | { readonly error: string };

function converted(profile: V8Profile): PprofAnswer {
  try {
    return { bytes: pprofOf(profile) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

process.once('message', (profile: V8Profile) => {
  process.send?.(converted(profile), () => process.disconnect());
});
