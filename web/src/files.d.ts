// Files that the build turns into URLs or styles.

declare module "*.svg" {
  const url: string;
  export default url;
}

declare module "*.css";
