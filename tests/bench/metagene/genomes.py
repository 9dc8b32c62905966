"""Owns the genomes of the METAGENE reproduction: those that Debian packages ship as examples, unpacked without being installed."""

import gzip
import lzma
import pathlib
import shutil
import subprocess

# Of each: the package, the file in it, and what it is called here. Genes of 16S rRNA are what samples of a community have most in common.
FILES = (
    ("microbiomeutil-data", "usr/share/microbiomeutil-data/RESOURCES/rRNA16S.gold.fasta", "rrna.fna"),
    ("bowtie-examples", "usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz", "ecoli.fna"),
    ("kleborate-examples", "usr/share/doc/kleborate/examples/data/NTUH-K2044.fna.xz", "klebsiella.fna"),
    ("bowtie2-examples", "usr/share/doc/bowtie2/examples/reference/lambda_virus.fa.gz", "lambda.fna"),
)


class Missing(Exception):
    """No genomes: why."""


def packed(package, path, folder):
    """The file of the package: as it is installed, or from the package's archive."""
    installed = pathlib.Path("/") / path
    if installed.exists():
        return installed
    unpacked = folder / "packages" / package
    if not (unpacked / path).exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise Missing(f"{path} of the Debian package {package} is not here, nor apt-get to fetch it")
        unpacked.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", package], cwd=unpacked, capture_output=True, text=True, check=False)
        archives = sorted(unpacked.glob(f"{package}_*.deb"))
        if not archives:
            raise Missing(f"apt-get download {package}: {(fetched.stderr.strip() or 'nothing came').splitlines()[-1]}")
        subprocess.run(["dpkg-deb", "-x", archives[-1], unpacked], check=True)
    if not (unpacked / path).exists():
        raise Missing(f"the Debian package {package} has no {path}")
    return unpacked / path


def one_of_each_genus(fasta):
    """Of many genes of one species the one that is held out is a copy of one that is trained on. By taxonomy, so that what lies behind a cut is of
    other orders than what lies before it; where a genome comes from stands behind the last tab of its header."""
    genes = {}
    for record in fasta.decode().split(">")[1:]:
        genes.setdefault(record.partition("\n")[0].rpartition("\t")[2].strip(), record)
    return "".join(">" + genes[taxonomy] for taxonomy in sorted(genes)).encode()


def genomes(folder):
    """The FASTA files, in the order of FILES; Missing where a package cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for package, path, name in FILES:
        out = folder / name
        if not out.exists():
            source = packed(package, path, folder)
            opened = {".gz": gzip.open, ".xz": lzma.open}.get(source.suffix, open)
            with opened(source, "rb") as read:
                out.write_bytes(one_of_each_genus(read.read()) if name == "rrna.fna" else read.read())
        made.append(out)
    return made
