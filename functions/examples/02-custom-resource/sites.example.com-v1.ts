// Made by `levelhook types`: do not edit.
import { type KubernetesObject, type Resource, resource } from 'levelhook/function';

export interface SiteFields {
  spec: {
    pages: {
      [k: string]: string;
    };
  };
  status?: {
    pages?: number;
    conditions?: {
      type: string;
      status: 'True' | 'False' | 'Unknown';
      observedGeneration?: number;
      lastTransitionTime: string;
      reason: string;
      message: string;
    }[];
  };
}

/** example.com/v1 Site, as the apiserver sends it: raw JSON, timestamps are text. */
export type Site = KubernetesObject & SiteFields;

export const Site: Resource<Site> = resource<Site>('example.com/v1', 'Site', {
  plural: 'sites',
});
